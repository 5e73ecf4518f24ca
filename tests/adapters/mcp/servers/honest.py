"""A server written with the SDK, which speaks both protocols.

python honest.py                    on its standard streams
python honest.py PORT [KEY] [LOG]   on an address, for whoever has the key
"""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

LOG = Path(sys.argv[3]) if len(sys.argv) > 3 else Path("/dev/null")
SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    """One tool that doubles, and one that asks back."""
    hint = types.ToolAnnotations(read_only_hint=True)
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name="double", description="Doubles.", input_schema=SCHEMA, annotations=hint
            ),
            types.Tool(name="ask", description="Asks.", input_schema={"type": "object"}),
            types.Tool(name="wait", description="Waits.", input_schema={"type": "object"}),
        ]
    )


async def call_tool(context: Any, params: types.CallToolRequestParams) -> Any:
    """Do it."""
    if params.name == "wait":
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            LOG.write_text("cancelled")
            raise
    if params.name == "ask":
        question = types.ElicitRequestFormParams(
            message="Sure?", requested_schema={"type": "object", "properties": {}}
        )
        return types.InputRequiredResult(
            input_requests={"sure": types.ElicitRequest(params=question)}, request_state="s"
        )
    value = (params.arguments or {})["a"] * 2
    key = dict(params.meta or {}).get("loom-ia/idempotency_key")
    return types.CallToolResult(
        content=[types.TextContent(text=f"{value}")],
        structured_content={"value": value, "key": key},
    )


SERVER: Any = Server("honest", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def on_streams() -> None:
    """Serve the one who started us."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await SERVER.run(read, write, SERVER.create_initialization_options())


async def on_address(port: int, key: str) -> None:
    """Serve whoever has the key."""
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.responses import PlainTextResponse

    manager = StreamableHTTPSessionManager(app=SERVER)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if key and dict(scope["headers"]).get(b"authorization") != key.encode():
            await PlainTextResponse("no", 401)(scope, receive, send)
            return
        await manager.handle_request(scope, receive, send)

    config = uvicorn.Config(app, port=port, lifespan="off", log_level="error")
    async with manager.run():
        with contextlib.suppress(asyncio.CancelledError):
            await uvicorn.Server(config).serve()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(on_address(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
    else:
        asyncio.run(on_streams())
