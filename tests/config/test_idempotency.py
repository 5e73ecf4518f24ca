"""Where keys are kept, and which tools need a store that runs share."""

from pathlib import Path

import pytest

from loom_ia.adapters.idempotency.memory import MemoryIdempotency
from loom_ia.adapters.idempotency.sqlite import SqliteIdempotency
from loom_ia.assembly.host import Host
from loom_ia.config import load_config
from loom_ia.core.errors import ConfigError
from tests.config.projects import AGENT, ROOT, Folder

TOOLS = """\
from loom_ia.tools import idempotent, tool


@idempotent(key=["number"])
@tool
def send(number: str) -> str:
    '''Send.'''
    return number


@idempotent
@tool
def post(number: str) -> str:
    '''Post.'''
    return number
"""


@pytest.fixture
def office(folder: Folder) -> Folder:
    """A project whose agent has tools that remember."""
    folder.write("outils.py", TOOLS)
    folder.write("agents/devis.yaml", f"{AGENT}tools: [{{python: post}}, {{python: send}}]\n")
    return folder


def keep(folder: Folder, idempotency: str) -> None:
    """Write where keys are kept."""
    folder.write("loom.yaml", f"{ROOT}imports: [outils]\nstorage:\n  idempotency: {idempotency}\n")


@pytest.mark.parametrize("profile", [None, "dev", "prod"])
@pytest.mark.parametrize("backend", ["journal", "memory"])
def test_b13_a_key_that_runs_share(office: Folder, backend: str, profile: str | None) -> None:
    """A key of its own is refused without a durable store that runs share, whatever the profile."""
    keep(office, f"{{backend: {backend}}}")
    (problem,) = office.problems(references=True, profile=profile)
    assert problem.startswith("agents/devis.yaml:3: tools[1].python — send remembers under a key")
    for word in (backend, "sqlite", "postgres", "redis", "storage.idempotency"):
        assert word in problem


def test_b13_when_the_tools_are_imported_later(office: Folder) -> None:
    """What was loaded without its tools refuses when it is mounted."""
    keep(office, "{backend: journal}")
    host = Host(office.load())
    with pytest.raises(ConfigError, match="send remembers under a key"):
        host.programs()


def test_b13_a_shared_store(office: Folder) -> None:
    """With SQLite the key is accepted."""
    keep(office, "{backend: sqlite, path: data/keys.db}")
    assert not office.load(references=True).warnings


def test_a_technical_key_needs_no_store(office: Folder) -> None:
    """A tool that remembers its calls is content with the journal."""
    office.write("agents/devis.yaml", f"{AGENT}tools: [{{python: post}}]\n")
    keep(office, "{backend: journal}")
    office.load(references=True)


@pytest.mark.parametrize(
    ("idempotency", "said"),
    [
        ("{backend: sqlite}", "storage.idempotency — the sqlite backend needs a path"),
        ("{path: keys.db}", "storage.idempotency.path — the journal backend takes no path"),
        (
            "{backend: memory, path: keys.db}",
            "storage.idempotency.path — the memory backend takes no path",
        ),
        ("{backend: postgres}", "postgres"),
        ("{backend: redis, url_env: X}", "redis"),
    ],
)
def test_a_path_goes_with_sqlite(folder: Folder, idempotency: str, said: str) -> None:
    """SQLite has a path, the others none, and what is not available yet is said to be so."""
    keep(folder, idempotency)
    folder.write("outils.py", TOOLS)
    assert said in "\n".join(folder.problems())


@pytest.mark.parametrize(
    ("idempotency", "kind"),
    [
        ("{}", type(None)),
        ("{backend: memory}", MemoryIdempotency),
        ("{backend: sqlite, path: data/keys.db}", SqliteIdempotency),
    ],
)
def test_the_store_of_each_backend(office: Folder, idempotency: str, kind: type) -> None:
    """Each backend has its store, and the journal none of its own."""
    keep(office, idempotency)
    assert type(Host(office.load()).idempotency) is kind


async def test_a_path_is_relative_to_the_file(office: Folder, tmp_path: Path) -> None:
    """The keys are beside the configuration, wherever the process is, and made when needed."""
    keep(office, "{backend: sqlite, path: data/keys.db}")
    host = Host(load_config(office.path))
    assert host.idempotency is not None
    assert await host.idempotency.forget("default", "s") == 0
    await host.close()
    assert (tmp_path / "data" / "keys.db").is_file()
