"""A process that is killed between the notice and the fact: it is sent again, under its id."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from loom_ia.access import Loom
from tests.access.http.confirming import SECRETS, receiver, written

CODE = """\
import asyncio, sys
from loom_ia.access import Loom


async def main():
    async with Loom.from_config(sys.argv[1]) as loom:
        await loom.run("relance", "Relance Dupont", run_id="r1")
        await loom.drain()


asyncio.run(main())
"""


async def test_pub12_killed_between_the_notice_and_the_fact(tmp_path: Path) -> None:
    """Two processes recover at once: one id, one request, one fact, and a decision that counts."""
    async with receiver() as (hook, url):
        hook.gate = asyncio.Event()
        file = written(tmp_path, url)
        environ = {**os.environ, **SECRETS}
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", CODE, file, env=environ)
        async with asyncio.timeout(60):
            await hook.arrived.wait()
        child.send_signal(signal.SIGKILL)
        await child.wait()
        hook.gate.set()
        await asyncio.gather(_recovered(file, environ), _recovered(file, environ))
        assert len(hook.posts) in (2, 3)  # each process may have sent it
        assert len({body for _, body in hook.posts}) == 1
        assert len({headers["loom-delivery"] for headers, _ in hook.posts}) == 1
        async with Loom.from_config(file, environ=environ) as loom:
            kinds = [event.type for event in await loom.events("r1")]
            assert kinds.count("approval.requested") == kinds.count("approval.notified") == 1
            await loom.approve("r1", by="ana")
            await loom.drain()
            assert (await loom.result("r1")).ok
    assert (tmp_path / "sent").read_text() == "compta@dupont.example\n"


async def _recovered(file: Path, environ: dict[str, str]) -> None:
    async with Loom.from_config(file, environ=environ) as loom:
        await loom.recover()
        await loom.drain()
