"""`loom mcp`, as a process, with the client of the SDK."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from tests.acceptance.project import ANSWER, LOOM, Project, call, calling
from tests.access.mcp_server.clients import GENERATIONS, content_of, over_stdio, stderr, text_of

NOISY = '''

@tool
def bavard(texte: str) -> str:
    """Écrit partout."""
    import subprocess
    import sys

    print("imprime", texte)
    sys.stdout.write("écrit\\n")
    sys.stdout.flush()
    os.write(1, b"descripteur\\n")
    subprocess.run(["sh", "-c", "echo processus; cat"], check=True)
    return "dit"


print("à l'import")
'''


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_an_agent_answers(project: Project, mode: str) -> None:
    """A call gives the answer as text and the whole result as structured content."""
    async with over_stdio(project, mode) as client:
        result = await client.call_tool("devis", {"message": "Quel prix ?"})
        assert text_of(result) == ANSWER
        assert not result.is_error
        assert result.structured_content["status"] == "completed"
        run_id = result.structured_content["run_id"]
        status = await client.call_tool("run_status", {"run_id": run_id})
        report = await client.call_tool("run_report", {"run_id": run_id})
        cancelled = await client.call_tool("cancel", {"run_id": run_id})
    assert status.structured_content == result.structured_content
    assert report.structured_content["total"]["calls"] == 2
    assert cancelled.structured_content == {"run_id": run_id, "cancelled": False}


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_nothing_but_the_protocol_is_on_standard_output(project: Project, mode: str) -> None:
    """Whatever a module, a tool, C code and a child process print goes to standard error."""
    project.more_tools = NOISY
    project.tools = ["bavard"]
    project.script = [calling(call("bavard", texte="fort")), {"text": "Fini."}]
    project.save()
    async with over_stdio(project, mode) as client:
        result = await client.call_tool("devis", {"message": "Parle"})
    assert text_of(result) == "Fini."
    said = stderr(project)
    for word in ("à l'import", "imprime fort", "écrit", "descripteur", "processus"):
        assert word in said


def test_standard_output_is_json_lines_to_the_last_byte(project: Project) -> None:
    """What the process writes on its output is messages, and nothing else."""
    project.more_tools = NOISY
    project.tools = ["bavard"]
    project.script = [calling(call("bavard", texte="fort")), {"text": "Fini."}]
    project.save()
    with _process(project) as process:
        _initialize(process)
        _send(process, 1, "tools/call", name="devis", arguments={"message": "Parle"})
        answer = _receive(process)
        rest, _ = process.communicate(timeout=30)
    assert answer["id"] == 1
    assert answer["result"]["content"][0]["text"] == "Fini."
    assert rest == b""
    assert process.returncode == 0


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_arguments_that_do_not_fit_are_told_to_the_model(project: Project, mode: str) -> None:
    """Wrong arguments are an error of the tool, which says what is wrong, and begin no run."""
    wrong: list[dict[str, Any]] = [
        {},
        {"message": 3},
        {"message": "a", "mess": "b"},
        {"message": "  "},
        {"message": "a" * 1_000_001},
        {"message": "a", "session_id": "../x"},
        {"message": "a", "attachments": [{"type": "video", "data": "x"}]},
        {"message": "a", "attachments": [{"type": "image", "data": "pas du base64"}]},
        {"message": "a", "attachments": [{"type": "resource_link", "uri": "https://x.test/a.png"}]},
    ]
    async with over_stdio(project, mode) as client:
        for arguments in wrong:
            refused = await client.call_tool("devis", arguments)
            assert refused.is_error, arguments
            assert refused.structured_content is None
            assert text_of(refused)
        runs = json.loads(content_of(await client.read_resource("loom://runs")))
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("inconnu", {"message": "a"})
    assert runs["runs"] == []
    assert unknown.value.error.code == types.INVALID_PARAMS
    assert "devis" in unknown.value.error.message


async def test_a_failed_run_is_an_error_with_its_result(project: Project) -> None:
    """A run that fails is an error of the tool, whose structured content says how."""
    project.script = [{"error": "auth"}]
    project.save()
    async with over_stdio(project, "auto") as client:
        result = await client.call_tool("devis", {"message": "Quel prix ?"})
    assert result.is_error
    assert result.structured_content["error_type"] == "model.auth"
    assert "model.auth" in text_of(result)


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_conversation_goes_on(project: Project, mode: str) -> None:
    """The session id of a result continues it, as everywhere."""
    project.script = [{"text": "Un."}, {"text": "Deux."}]
    project.save()
    async with over_stdio(project, mode) as client:
        await client.call_tool("devis", {"message": "a", "session_id": "chantier"})
        await client.call_tool("devis", {"message": "b", "session_id": "chantier"})
        session = await client.read_resource("loom://sessions/chantier")
    assert len(json.loads(content_of(session))["runs"]) == 2


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_a_call_that_is_taken_back_cancels_its_run(project: Project, mode: str) -> None:
    """A client that cancels a call closes the run for good, with its own name."""
    project.tools = ["lire"]
    project.script = [{"text": "Trop tard.", "delay": 60}]
    project.save()
    info = types.Implementation(name="Claude Code", version="1")
    async with over_stdio(project, mode, client_info=info) as client:
        begun = anyio.Event()

        async def told(_progress: float, _total: float | None, _message: str | None) -> None:
            begun.set()

        async with anyio.create_task_group() as group:
            group.start_soon(_call, client, told)
            with anyio.fail_after(30):
                await begun.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(30):
            while True:
                (run,) = json.loads(content_of(await client.read_resource("loom://runs")))["runs"]
                if run["status"] == "cancelled":
                    break
                await anyio.sleep(0.02)
    (line,) = [e for e in project.lines(run["session_id"]) if e["type"] == "run.cancelled"]
    assert "mcp:Claude-Code" in json.dumps(line)


async def _call(client: Any, told: Any) -> None:
    await client.call_tool("devis", {"message": "Attends"}, progress_callback=told)


@pytest.mark.parametrize("way", ["end of input", "SIGTERM", "kill -9"])
def test_a_server_that_goes_leaves_the_run_resumable(project: Project, way: str) -> None:
    """However the server ends during a run, `loom resume` goes on with it, and acts once."""
    project.tools = ["lire", "envoyer"]
    project.script = [
        calling(call("envoyer", texte="a")),
        {"text": "Fini.", "delay": 60},
    ]
    project.save()
    with _process(project) as process:
        _initialize(process)
        _send(
            process,
            1,
            "tools/call",
            name="devis",
            arguments={"message": "Envoie"},
            _meta={"progressToken": 7},
        )
        lines = []
        while not lines or "envoyer answered" not in lines[-1]:
            lines.append(_receive(process)["params"]["message"])
        if way == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        elif way == "kill -9":
            process.kill()
        process.communicate(timeout=30)
    assert process.returncode == {"end of input": 0, "SIGTERM": 143, "kill -9": -9}[way]
    project.script[1] = {"text": "Fini."}
    project.save()
    run_id = lines[0].split()[2]
    words = ["--take-over"] if way == "kill -9" else []
    done = project.command("resume", run_id, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "Fini."
    assert project.effects() == ["envoyer:a"]


def test_a_broken_configuration_ends_before_the_protocol(project: Project) -> None:
    """Faults of the configuration are said on standard error, with code 2 and no output."""
    project.tools = ["inconnu"]
    project.save()
    done = project.command("mcp")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "inconnu" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_client_is_refused(project: Project) -> None:
    """`--tenant` names a client that is served, or the command refuses."""
    done = project.command("mcp", "--tenant", "dupont")
    assert done.returncode == 2
    assert "dupont" in done.stderr


@pytest.mark.parametrize("name", ["run_status", "run_report", "cancel"])
def test_an_agent_cannot_take_the_name_of_a_tool_of_the_server(project: Project, name: str) -> None:
    """An exposed agent of such a name is refused, with its place; a hidden one is not."""
    project.agent = {"name": name}
    project.save()
    refused = project.command("validate")
    assert refused.returncode == 2
    assert "agents/devis.yaml:1" in refused.stderr + refused.stdout
    assert "expose.mcp" in refused.stderr + refused.stdout
    project.agent = {"name": name, "expose": {"mcp": False}}
    project.save()
    assert project.command("validate").returncode == 0


async def test_the_command_that_clients_are_given_works_from_anywhere(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """`loom --config FILE mcp` serves the agents of that file, wherever it is started."""
    elsewhere = Project(tmp_path_factory.mktemp("ailleurs"))
    async with over_stdio(elsewhere, "legacy", "--config", str(project.file)) as client:
        assert "devis" in [tool.name for tool in (await client.list_tools()).tools]


def test_the_protocol_is_imported_by_those_who_serve_it_alone(project: Project) -> None:
    """Neither the library nor other commands load the protocol."""
    code = (
        "import sys; from loom_ia.access.cli.main import main; import loom_ia\n"
        "from loom_ia import Loom\n"
        "main(['run', 'devis', 'Prix ?'])\n"
        "assert not [m for m in sys.modules if m.partition('.')[0] in ('mcp', 'starlette')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _process(project: Project) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [LOOM, "mcp"],
        cwd=project.folder,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _send(process: "subprocess.Popen[bytes]", rank: int, method: str, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": rank, "method": method, "params": params}
    _write(process, message)


def _write(process: "subprocess.Popen[bytes]", message: Any) -> None:
    assert process.stdin
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def _receive(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert process.stdout
    return json.loads(process.stdout.readline())


def _initialize(process: "subprocess.Popen[bytes]") -> None:
    client = {"name": "essai", "version": "1"}
    _send(
        process, 0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client
    )
    assert _receive(process)["id"] == 0
    _write(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})


def test_what_is_no_message_is_told_and_the_next_one_served(project: Project) -> None:
    """Broken, deep and over-long lines are answered as the protocol has it; serving goes on."""
    project.root = {"server": {"http": {"max_body_bytes": 200_000}}}
    project.save()
    deep = b'{"jsonrpc":"2.0","id":5,"method":"ping","params":' + b'{"a":' * 5000 + b"1"
    with _process(project) as process:
        assert process.stdin
        _initialize(process)
        told = []
        for line in (b"pas du json", b"[]", b'{"a": 1}', deep + b"}" * 5001, b"x" * 300_000, b""):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            if line:
                told.append(_receive(process))
        _send(process, 9, "ping")
        assert _receive(process) == {"jsonrpc": "2.0", "id": 9, "result": {}}
        process.communicate(timeout=30)
    assert [answer["error"]["code"] for answer in told] == [-32700] * 4 + [-32600]
    assert process.returncode == 0


async def test_a_thousand_calls_at_once_are_all_answered(project: Project) -> None:
    """A client that calls without end is answered, and other requests pass meanwhile."""
    project.script = [{"text": "Oui."}] * 1_500
    project.backend = "memory"
    project.save()
    async with over_stdio(project, "auto") as client:
        calls = [client.call_tool("devis", {"message": str(n)}) for n in range(1_000)]
        results = await asyncio.gather(*calls)
        tools = await client.list_tools()
    assert all(isinstance(result, types.CallToolResult) for result in results)
    assert {text_of(result) for result in results} == {"Oui."}
    assert tools.tools


def test_children_of_the_server_hear_nothing(project: Project) -> None:
    """A process that a tool starts reads an empty input: it cannot take words of the client."""
    project.more_tools = '''

@tool
def ecoute() -> str:
    """Lit son entrée."""
    import subprocess

    heard = subprocess.run(["cat"], capture_output=True, text=True, check=True).stdout
    note(f"entendu:{heard}")
    return "écouté"
'''
    project.tools = ["ecoute"]
    project.script = [calling(call("ecoute")), {"text": "Fini."}]
    project.save()
    with _process(project) as process:
        _initialize(process)
        _send(process, 1, "tools/call", name="devis", arguments={"message": "Écoute"})
        _send(process, 2, "ping")
        answers = {answer["id"]: answer for answer in (_receive(process), _receive(process))}
        process.communicate(timeout=30)
    assert answers[1]["result"]["content"][0]["text"] == "Fini."
    assert project.effects() == ["entendu:"]
