"""What a server counts, in the text format 0.0.4 of Prometheus.

Law. Numbers only: no content, no id of a run, a session or a key, and no address. What names a
series is from the configuration or from the routes, and anything else is `other`, so that nobody
outside decides how many series there are. Facts are counted as this process writes them; what other
processes write is theirs to count.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loom_ia.access.api import Loom
from loom_ia.core.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
)
from loom_ia.core.events.envelope import Event, Payload
from loom_ia.core.events.model import ModelResponded, ModelRetried
from loom_ia.core.events.run import RunCancelled, RunCompleted, RunFailed, RunStarted
from loom_ia.core.events.tool import ToolCompleted
from loom_ia.core.model.usage import Usage

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_MOST_SERIES: Final = 2000
_OTHER: Final = "other"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_WORK_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

_log = logging.getLogger("loom_ia.access.http")

Labels = tuple[str, ...]


class Counter:
    """A number for each set of values of `labels`, which only grows (or a gauge, which moves)."""

    def __init__(self, name: str, help: str, *labels: str, kind: str = "counter") -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.kind = kind
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *values: str, by: float = 1) -> None:
        """Count `by` for these values of the labels."""
        if values not in self._values and len(self._values) >= _MOST_SERIES:
            values = (_OTHER,) * len(values)
        self._values[values] = self._values.get(values, 0) + by

    def lines(self) -> Iterator[str]:
        """Write its series."""
        yield from _head(self.name, self.help, self.kind)
        for values, number in self._values.items():
            yield _line(self.name, zip(self.labels, values, strict=True), number)


class Histogram:
    """How long things took, in seconds, for each set of values of `labels`."""

    def __init__(self, name: str, help: str, *labels: str, bounds: Sequence[float]) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self.bounds = bounds
        self._values: dict[Labels, list[float]] = {}

    def add(self, *values: str, seconds: float) -> None:
        """Count one thing that took `seconds`."""
        if values not in self._values and len(self._values) >= _MOST_SERIES:
            values = (_OTHER,) * len(values)
        counts = self._values.get(values)
        if counts is None:
            counts = self._values[values] = [0.0] * (len(self.bounds) + 2)
        place = next((i for i, most in enumerate(self.bounds) if seconds <= most), None)
        counts[len(self.bounds) if place is None else place] += 1
        counts[-1] += seconds

    def lines(self) -> Iterator[str]:
        """Write its series."""
        yield from _head(self.name, self.help, "histogram")
        for values, (*counts, total) in self._values.items():
            labels = tuple(zip(self.labels, values, strict=True))
            seen = 0.0
            for bound, count in zip((*map(_number, self.bounds), "+Inf"), counts, strict=True):
                seen += count
                yield _line(f"{self.name}_bucket", (*labels, ("le", bound)), seen)
            yield _line(f"{self.name}_sum", labels, total)
            yield _line(f"{self.name}_count", labels, seen)


class Metrics:
    """Counts what one `Loom` writes, and what is asked of it over HTTP."""

    def __init__(self, loom: Loom) -> None:
        self._loom = loom
        config = loom.config
        self._agents = {agent.name for agent in config.agents}
        self._models = {model.id for model in config.models}
        self._tools: set[str] | None = None
        agent, model = ("agent",), ("model",)
        self.started = Counter("loom_runs_started_total", "Runs begun.", *agent)
        self.finished = Counter("loom_runs_finished_total", "Runs over.", *agent, "status")
        self.calls = Counter(
            "loom_model_calls_total", "Calls of models, by how they ended.", *model, "outcome"
        )
        self.tokens = Counter(
            "loom_model_tokens_total", "Tokens that models read and wrote.", *model, "kind"
        )
        self.cost = Counter("loom_model_cost_dollars_total", "Dollars, where known.", *model)
        self.answers = Histogram(
            "loom_model_call_seconds", "How long models took to answer.", *model, bounds=_WORK_S
        )
        self.tools = Counter(
            "loom_tool_calls_total", "Calls of tools, by how they ended.", "tool", "outcome"
        )
        self.asked = Counter("loom_approvals_requested_total", "Calls that asked a human.", *agent)
        self.decided = Counter(
            "loom_approvals_decided_total", "Requests that were decided, or expired.", "decision"
        )
        route = ("method", "route")
        self.requests = Counter("loom_http_requests_total", "Requests.", *route, "status")
        self.durations = Histogram(
            "loom_http_request_seconds",
            "How long requests took, streams aside.",
            *route,
            bounds=_REQUEST_S,
        )
        self.open = Counter("loom_http_requests_in_flight", "Requests under way.", kind="gauge")
        self.streams = Counter("loom_event_streams", "Streams of events open.", kind="gauge")

    # -- facts ------------------------------------------------------------------------------------

    def written(self, events: Sequence[Event]) -> None:
        """Count facts that were just written; never raises, for they are written already."""
        try:
            for event in events:
                self._count(event)
        except Exception as error:  # noqa: BLE001 -- a number is never worth a run
            _log.warning("facts not counted: %s", type(error).__name__)

    def _count(self, event: Event) -> None:
        agent = event.agent if event.agent in self._agents else self._graph(event.agent)
        match event.payload:
            case RunStarted() | RunCompleted() | RunFailed() | RunCancelled() as fact:
                if event.run_id == event.root_run_id:
                    self._count_run(agent, fact)
            case ModelResponded() as said:
                model = self._model(said.model)
                self.calls.add(model, "ok")
                self.answers.add(model, seconds=said.latency_ms / 1000)
                self._count_usage(model, said.usage, said.cost_usd)
            case ModelRetried() as tried:
                model = self._model(tried.model)
                self.calls.add(model, str(tried.error_kind))
                if tried.usage is not None:
                    self._count_usage(model, tried.usage, tried.cost_usd)
            case ToolCompleted() as ended:
                is_error = "error" if ended.output.is_error else "ok"
                self.tools.add(self._tool(ended.tool_name), ended.outcome or is_error)
            case ApprovalRequested():
                self.asked.add(agent)
            case ApprovalGranted() | ApprovalRejected() | ApprovalExpired() as fact:
                self.decided.add(fact.TYPE.removeprefix("approval."))
            case _:
                pass

    def _count_run(self, agent: str, fact: Payload) -> None:
        if isinstance(fact, RunStarted):
            self.started.add(agent)
        else:
            self.finished.add(agent, fact.TYPE.removeprefix("run."))

    def _count_usage(self, model: str, usage: Usage, cost: float) -> None:
        kinds = (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cache_read", usage.cache_read_tokens),
            ("cache_write", usage.cache_write_tokens),
        )
        for kind, count in kinds:
            if count:
                self.tokens.add(model, kind, by=count)
        if cost:
            self.cost.add(model, by=cost)

    def _graph(self, name: str) -> str:
        return name if name in self._loom.graphs else _OTHER

    def _model(self, name: str) -> str:
        return name if name in self._models else _OTHER

    def _tool(self, name: str) -> str:
        """Name a tool, or a step of a graph, that there is: a model may call any other one."""
        if self._tools is None:
            self._tools = set(self._loom.tool_names)
        return name if name in self._tools else _OTHER

    # -- what is told -----------------------------------------------------------------------------

    def text(self) -> str:
        """Write everything, as Prometheus reads it."""
        families = (
            self.started,
            self.finished,
            self.calls,
            self.tokens,
            self.cost,
            self.answers,
            self.tools,
            self.asked,
            self.decided,
            self.requests,
            self.durations,
            self.open,
            self.streams,
        )
        lines = [line for family in families for line in family.lines()]
        active = len(self._loom.driven)
        lines += _gauge("loom_runs_active", "Runs that are driven here.", active)
        lines += _head("loom_info", "The version that serves.", "gauge")
        lines.append(_line("loom_info", (("version", version("loom-ia")),), 1))
        lines += _of_process()
        return "\n".join(lines) + "\n"


class Counting:
    """Counts the requests of an application, by the route that they took."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        metrics, status, streams = self._metrics, 0, False

        async def counted(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_stream(message):
                    streams = True
                    metrics.streams.add()
            await send(message)

        metrics.open.add()
        began = time.perf_counter()
        try:
            await self._app(scope, receive, counted)
        except asyncio.CancelledError:
            raise
        except BaseException:
            status = status or 500
            raise
        finally:
            metrics.open.add(by=-1)
            self._ended(scope, status, None if streams else time.perf_counter() - began)

    def _ended(self, scope: Scope, status: int, seconds: float | None) -> None:
        metrics = self._metrics
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        route = route_of(scope)
        metrics.requests.add(method, route, str(status) if status else "none")
        if seconds is None:
            metrics.streams.add(by=-1)
            return
        metrics.durations.add(method, route, seconds=seconds)
        if not route.endswith(_QUIET) and _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s %s: %s, %d ms", method, route, status or "none", seconds * 1000)


_QUIET: Final = ("/healthz", "/readyz", "/metrics")


def route_of(scope: Scope) -> str:
    """Name the route that a request took, without what was put in its address."""
    route = scope.get("route")
    path: object = getattr(route, "path_format", None) or getattr(route, "path", None)
    return path if isinstance(path, str) else "none"


def _is_stream(message: Message) -> bool:
    headers: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in headers
    )


def _of_process() -> Iterator[str]:
    """Tell what the process takes; what this system does not tell is left out."""
    yield from _gauge("process_start_time_seconds", "When the process began.", _BEGAN)
    yield from _head("process_cpu_seconds_total", "Seconds of processor.", "counter")
    yield _line("process_cpu_seconds_total", (), time.process_time())
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- names are all that is needed
    except (OSError, ValueError, IndexError):
        return
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    yield from _gauge("process_resident_memory_bytes", "Memory of the process.", memory)
    yield from _gauge("process_open_fds", "Files that the process has open.", files)


_BEGAN: Final = time.time()


def _gauge(name: str, help: str, value: float) -> Iterator[str]:
    yield from _head(name, help, "gauge")
    yield _line(name, (), value)


def _head(name: str, help: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {help}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {_number(value)}" if inside else f"{name} {_number(value)}"


def escaped(text: str) -> str:
    """Escape the value of a label."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
