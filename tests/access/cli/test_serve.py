"""`loom serve` in processes of its own: where it listens, how it stops, and who goes on."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.access.cli.serving import Project, Served, follow, project_in, rest_of, until


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with an agent that answers, and one whose tool waits to be let go."""
    with project_in(tmp_path) as made:
        yield made


def begun(served: Served, agent: str = "facteur") -> str:
    """Begin a run in the background, and give its id."""
    status, text = served.ask(f"/v1/agents/{agent}/runs", {"message": "Va", "background": True})
    assert status == 202, text
    return json.loads(text)["run_id"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_is_answers_and_stops(project: Project, number: int) -> None:
    """It tells its address and that it is open to all, answers, and ends with 0 at a signal."""
    served = project.serve("--port", "0").is_up()
    assert "without an API key" in served.said
    status, text = served.ask("/v1/agents/echo/runs", {"message": "Bonjour"})
    assert (status, json.loads(text)["status"]) == (201, "completed")
    assert served.ask("/readyz") == (200, '{"status":"ready"}')
    assert served.stop(number) == 0
    assert "Traceback" not in served.said


def test_a_name_that_leads_here_opens_no_door(project: Project) -> None:
    """While no key is declared, a name that anybody may have pointed here is refused."""
    served = project.serve("--port", "0").is_up()
    port = served.port

    def asked(host: str) -> int:
        with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
            connection.request("GET", "/v1/agents", headers={"Host": host})
            return connection.getresponse().status

    known = ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}")
    assert [asked(host) for host in known] == [200] * 4
    strange = (f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "[::1")
    assert [asked(host) for host in strange] == [403] * 4
    assert served.stop() == 0


def test_b11_prod_without_a_key_is_refused(project: Project) -> None:
    """In prod a server that asks nobody for a key is refused with 2, on loopback, too."""
    served = project.serve("--port", "0", "--profile", "prod", "--host", "127.0.0.1")
    assert served.process.wait(30) == 2
    assert "security.api_keys" in served.said
    assert "loom keys create" in served.said


def test_a_taken_port_is_told_with_a_remedy(project: Project) -> None:
    """A port that somebody listens on is refused with 2, before anything is served."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        served = project.serve("--port", str(other.getsockname()[1]))
        assert served.process.wait(30) == 2
    assert "is taken" in served.said
    assert "--port" in served.said


def test_an_address_of_the_network_without_keys_is_warned_of(project: Project) -> None:
    """Listening for everybody on the network without a key is said."""
    served = project.serve("--port", "0", "--host", "0.0.0.0")
    served.hears("over the network")
    served.hears("Serving")
    assert served.stop() == 0


def test_pub_51_sigterm_ends_streams_and_another_server_goes_on(project: Project) -> None:
    """Streams end, the tool under way is waited for, and another server goes on in 2 s."""
    first = project.serve("--port", "0").is_up()
    run_id = begun(first)
    until((project.folder / "begun-un").exists, "the tool began")
    stream = follow(first, run_id)
    second = project.serve("--port", "0").is_up()
    first.process.send_signal(signal.SIGTERM)
    rest_of(stream)  # it ends although the run goes on
    assert first.process.poll() is None
    (project.folder / "go").touch()
    assert first.process.wait(30) == 0
    left = time.monotonic()
    until(lambda: len(project.done) == 2, "the second call")
    assert time.monotonic() - left < 30  # the lease is of 600
    until(lambda: '"completed"' in second.ask(f"/v1/runs/{run_id}")[1], "the end of the run")
    status, text = second.ask(f"/v1/runs/{run_id}")
    assert (status, json.loads(text)["text"]) == (200, "Fini.")
    assert project.done == [["un", str(first.process.pid)], ["deux", str(second.process.pid)]]
    assert "Traceback" not in first.said


def test_pub_14_a_killed_server_is_followed_by_the_one_that_lives(project: Project) -> None:
    """What a server that is killed leaves is taken up by one that was there before."""
    config = (project.folder / "loom.yaml").read_text()
    project.write("loom.yaml", config.replace("lease: 600", "lease: 2"))
    second = project.serve("--port", "0").is_up()
    first = project.serve("--port", "0").is_up()
    run_id = begun(first)
    until((project.folder / "begun-un").exists, "the tool began")
    first.process.kill()
    first.process.wait()
    until((project.folder / "begun-deux").exists, "the run goes on")
    assert (project.folder / "begun-deux").read_text() == str(second.process.pid)
    assert json.loads(second.ask(f"/v1/runs/{run_id}")[1])["run_id"] == run_id


def test_a_second_signal_leaves_at_once(project: Project) -> None:
    """A tool that is not let go does not keep a process that is told twice to stop."""
    served = project.serve("--port", "0").is_up()
    begun(served)
    until((project.folder / "begun-un").exists, "the tool began")
    served.process.send_signal(signal.SIGTERM)
    served.hears("Stopping")
    assert served.stop() == 128 + signal.SIGTERM


def test_what_does_not_end_is_cut_within_shutdown_timeout(project: Project) -> None:
    """A tool that never ends is given up in time, and the run is left to others."""
    config = (project.folder / "loom.yaml").read_text()
    project.write("loom.yaml", config.replace("shutdown_timeout: 20", "shutdown_timeout: 2"))
    served = project.serve("--port", "0").is_up()
    begun(served)
    until((project.folder / "begun-un").exists, "the tool began")
    began = time.monotonic()
    assert served.stop() == 0
    assert time.monotonic() - began < 30
