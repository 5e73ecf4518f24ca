"""`loom serve --reload` in real processes: nobody is refused, and nothing broken is served."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchfiles import Change

from loom_ia.access.http.reload import Wanted
from tests.access.cli.serving import PATIENCE_S, TOOLS, Project, Served, is_alive, project_in, until

BROKEN = "nope: 1\n"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project, and what serves it."""
    with project_in(tmp_path) as made:
        yield made


def renamed(project: Project, name: str) -> None:
    """Give the agent `echo` another name, and save."""
    config = (project.folder / "loom.yaml").read_text()
    head, _, tail = config.partition("agents:\n")
    rest = tail.partition("\n")[2]
    line = f"  - {{name: {name}, main: {{model: ECHO, system: Aide.}}}}\n"
    project.write("loom.yaml", f"{head}agents:\n{line}{rest}")


def agents(served: Served) -> str:
    """Give the answer that lists the agents."""
    status, text = served.ask("/v1/agents")
    assert status == 200
    return text


def children(pid: int) -> list[int]:
    """Give the processes that a process began."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_h15_a_broken_configuration_is_refused_while_the_old_one_serves(project: Project) -> None:
    """The reason is printed and the old process serves; once corrected, the new one does."""
    served = project.serve("--reload", "--port", "0").is_up()
    sound = (project.folder / "loom.yaml").read_text()
    project.write("loom.yaml", sound + BROKEN)
    served.hears("Reload     : refused")
    assert "nope — unknown key" in served.said
    assert '"echo"' in agents(served)
    project.write("outils.py", TOOLS + "def (\n")
    project.write("loom.yaml", sound)
    served.hears("Reload     : refused", times=2)
    assert "outils" in served.said
    assert '"echo"' in agents(served)
    project.write("outils.py", TOOLS)
    renamed(project, "echo2")
    until(lambda: '"echo2"' in agents(served), "the new configuration is served")
    assert served.stop() == 0


def test_h15_reload_is_refused_in_prod(project: Project) -> None:
    """In prod it is refused with 2, and nothing is begun."""
    served = project.serve("--reload", "--port", "0", "--profile", "prod")
    assert served.process.wait(PATIENCE_S) == 2
    assert "--reload" in served.said


def test_nobody_is_refused_during_many_saves(project: Project) -> None:
    """Twenty quick saves under traffic: every request is answered, and the last save is served."""
    served = project.serve("--reload", "--port", "0").is_up()
    over, answers = threading.Event(), []

    def ask() -> None:
        while not over.is_set():
            try:
                answers.append(served.ask("/v1/agents")[0])
            except OSError as error:
                answers.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for count in range(20):
            renamed(project, f"echo{count}")
        until(lambda: '"echo19"' in agents(served), "the last save is served")
    finally:
        over.set()
        asking.join()
    assert set(answers) == {200}
    assert served.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_one_that_watches(project: Project, number: int) -> None:
    """However the one that watches ends, the one that serves ends too."""
    served = project.serve("--reload", "--port", "0").is_up()
    begun = children(served.process.pid)
    assert len(begun) == 1
    code = served.stop(number)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    until(lambda: not any(map(is_alive, begun)), f"{begun} have ended")


def test_a_server_that_dies_is_told_and_begun_again_by_a_change(project: Project) -> None:
    """A crash of the process that serves is said, and the next change begins another one."""
    served = project.serve("--reload", "--port", "0").is_up()
    (pid,) = children(served.process.pid)
    os.kill(pid, signal.SIGKILL)
    served.hears("the process that served ended (code -9)")
    renamed(project, "encore")
    until(lambda: '"encore"' in agents(served), "another process serves")
    assert served.stop() == 0


def test_what_runs_write_is_no_change(tmp_path: Path) -> None:
    """Journals, files of runs and caches are ignored; prompts and variables are not."""
    wanted = Wanted(tmp_path, (tmp_path / "prompts",), (tmp_path / "journal",))
    seen = {
        name
        for name in (
            "loom.yaml",
            "agents/devis.yaml",
            "prompts/sujet.txt",
            "outils.py",
            ".env",
            ".env.local",
            "journal/s.md",
            "data/x.yaml",
            "__pycache__/outils.py",
            ".venv/lib/x.py",
            "envois.txt",
            "loom.yaml.swp",
        )
        if wanted(Change.modified, str(tmp_path / name))
    }
    assert seen == {
        "loom.yaml",
        "agents/devis.yaml",
        "prompts/sujet.txt",
        "outils.py",
        ".env",
        ".env.local",
    }
