"""The threads of the tools: how many, for whom, and what they leave behind."""

import asyncio
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from loom_ia.engine.threads import Threads


async def test_a_free_thread_is_used_again() -> None:
    """Work that comes one after the other takes one thread."""
    threads = Threads()
    names = {await threads.run(lambda: threading.current_thread().name) for _ in range(20)}
    assert len(names) == 1


async def test_work_that_comes_together_runs_together_up_to_the_size() -> None:
    """As many functions as the size allows run at once; the next waits for a thread."""
    threads = Threads(size=3)
    together = threading.Barrier(3)
    calls = [threads.run(together.wait) for _ in range(6)]
    assert sorted(await asyncio.gather(*calls)) == [0, 0, 1, 1, 2, 2]
    assert threads._count == 3


async def test_what_is_cancelled_before_it_began_never_begins() -> None:
    """Work that waits for a thread is dropped with its caller."""
    threads = Threads(size=1)
    release, ran = threading.Event(), list[str]()
    first = asyncio.ensure_future(threads.run(release.wait))
    second = asyncio.ensure_future(threads.run(lambda: ran.append("second"), to_end=True))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    assert await first
    await threads.run(lambda: ran.append("third"))
    assert ran == ["third"]


async def test_a_second_cancellation_gives_up() -> None:
    """A caller that insists is let go, and the thread goes on alone."""
    threads = Threads()
    begun, release = threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        release.wait()

    task = asyncio.ensure_future(threads.run(act, to_end=True))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_two_cancellations_at_once_give_up() -> None:
    """Two cancellations that raise only once count for two."""
    threads = Threads()
    begun, release = threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        release.wait()

    task = asyncio.ensure_future(threads.run(act, to_end=True))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_what_a_thread_raises_is_raised_to_the_caller() -> None:
    """Even an order to exit reaches the caller, and the thread serves on."""
    threads = Threads(size=1)

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await threads.run(leave)
    assert await threads.run(lambda: 1) == 1


def run_program(program: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python program, for ten seconds at most."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_a_tool_that_never_returns_does_not_keep_the_interpreter() -> None:
    """The program ends though a thread is stuck, and says nothing about it."""
    done = run_program(
        """
        import asyncio, threading
        from loom_ia.engine.threads import tool_threads

        async def main():
            task = asyncio.ensure_future(tool_threads.run(threading.Event().wait))
            await asyncio.wait((task,), timeout=0.05)
            print("end")

        asyncio.run(main())
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_has_threads_of_its_own() -> None:
    """After a fork the child does not count on threads that stayed with its parent."""
    done = run_program(
        """
        import asyncio, os, warnings
        from loom_ia.engine.threads import tool_threads

        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.run(tool_threads.run(lambda: None))
        if child := os.fork():
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(asyncio.run(tool_threads.run(lambda: "child")), flush=True)
        os._exit(7)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "child\n", "")
