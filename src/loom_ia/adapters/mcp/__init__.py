"""Tools of MCP servers: the port `ToolSource` for what speaks the Model Context Protocol.

Law. A server is a stranger. What it says is bounded in size, depth and time; one tool that cannot
be used hides no other; nothing that it points to is fetched; and what was accepted of it yesterday
is not replaced by what it says today. The SDK is imported by `session`, `stdio` and `http` only,
which the first connection loads.
"""
