"""What every test may count on: services are there, or the test says which one is not."""

import shutil
import socket
from functools import cache

import pytest
from hypothesis import settings

SERVICES = {"postgres": 5432, "redis": 6379, "rabbitmq": 5672}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# A deadline measures the machine, not the code: on a busy one it fails at random.
settings.register_profile("loom", settings(), deadline=None)
settings.load_profile("loom")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for machines where a service that is down is a fault, such as CI's."""
    parser.addoption(
        "--require-services",
        action="store_true",
        help="fail the tests whose service is down, instead of skipping them",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose service is down, or fail it when services are required."""
    for marker in item.iter_markers("service"):
        name: str = marker.args[0]
        if _listens(SERVICES[name]):
            continue
        reason = f"{name} does not answer on 127.0.0.1:{SERVICES[name]}"
        if item.config.getoption("--require-services"):
            pytest.fail(f"{reason}: start it (.ci/run shows how)", pytrace=False)
        pytest.skip(reason)

    if next(item.iter_markers("browser"), None) is not None and chromium() is None:
        reason = f"no Chromium is installed ({', '.join(BROWSERS)})"
        if item.config.getoption("--require-services"):
            pytest.fail(f"{reason}: install it (.ci/run shows how)", pytrace=False)
        pytest.skip(reason)


@cache
def chromium() -> str | None:
    """Find the Chromium of this machine."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


@cache
def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
