"""What every adapter of a provider does in the same way; a format adds how to write and to read.

Law. One call is one attempt: nothing here waits, retries or chooses; only thoughts that a provider
refuses are left out, and the same attempt goes on without them. The SDK is imported when it
is first needed, in a thread, before any clock runs. Keys and addresses are those of the
configuration: what the SDK would read from the environment is set aside, and a proxy that stands
there is not used for an address of this machine. Leaving the iteration closes the connection.
Whatever an answer holds, reading it ends in chunks or in `ModelError`.
"""

import asyncio
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from ipaddress import ip_address
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from urllib.parse import urlsplit

from loom_ia.adapters.models.faults import Fault, fault_of, model_error
from loom_ia.adapters.models.files import Contents, contents_of
from loom_ia.adapters.models.turns import Turn, turns_of, without_thoughts
from loom_ia.core.errors import ConfigError, ModelError, Problem, UnstorableValue
from loom_ia.core.json import JsonObject
from loom_ia.core.model.chunks import ModelChunk
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.request import ModelRequest
from loom_ia.core.ports.models import ModelAccess, OnExchange

if TYPE_CHECKING:
    import httpx2

    from loom_ia.adapters.models.capture import Observation

NO_KEY: Final = "-"
"""What is sent to a server that asks for no key: without any, the SDK would look for one."""

_THOUGHTS_REFUSED: Final = re.compile(
    r"`?signature`? in `?thinking|thinking`? blocks?|encrypted[_ ]content|reasoning (item|content)",
    re.IGNORECASE,
)
_MOST_READ: Final = 4_000
"""Characters of a refusal in which a sentence is looked for."""

BROKEN_OFF: Final = frozenset({"abort", "error", "insufficient_system_resource", "network_error"})
"""The reasons, in any format, of an answer that the server could not end."""

_UNREADABLE: Final = (ValueError, RecursionError, UnstorableValue)
"""What is raised for the content of an answer: no JSON, too deep, numbers that are too long."""
_UNREADABLE_REFUSAL: Final = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)

# Set only while a request is sent, in the task that sends it: the hooks of HTTP know no other way.
_OBSERVATION: ContextVar["Observation | None"] = ContextVar("observation", default=None)

_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-api-key",
    }
)


_log = logging.getLogger(__name__)


class Reader(ABC):
    """Reads one answer: the events of its stream, or the whole document of a server without one.

    `ended` tells whether the provider said that the answer is over: only then is it one.
    """

    ended: bool = False

    @abstractmethod
    def event(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read one event."""

    @abstractmethod
    def document(self, data: Mapping[str, Any]) -> Iterator[ModelChunk]:
        """Read a whole answer."""

    @abstractmethod
    def finish(self) -> Iterator[ModelChunk]:
        """Give what is left once the stream is over, `Stopped` last; nothing when it was cut."""


class WireModel(ABC):
    """A model behind HTTP. Subclasses name their SDK, write requests and read answers."""

    API: ClassVar[str]
    PATH: ClassVar[str]
    OWN_KEYS: ClassVar[frozenset[str]]
    """The keys of a request that the engine writes, and that `params` may not."""

    def __init__(self, spec: ModelSpec, access: ModelAccess | None = None) -> None:
        self._spec = spec
        self._access = access or ModelAccess()
        self._sdk: Any = None
        self._loading: asyncio.Lock | None = None
        self._http: httpx2.AsyncClient | None = None
        self._refuse_own_keys()

    @property
    def spec(self) -> ModelSpec:
        """The entry of the configuration."""
        return self._spec

    # -- what a format says -------------------------------------------------------------------

    @abstractmethod
    def load(self, http: "httpx2.AsyncClient", api_key: str) -> Any:
        """Import the SDK and make its client on `http`."""

    @abstractmethod
    def write(self, request: ModelRequest, turns: list[Turn], contents: Contents) -> JsonObject:
        """Write the body of a request."""

    @abstractmethod
    def reader(self) -> Reader:
        """Give what reads the next answer."""

    # -- what is the same for all ---------------------------------------------------------------

    async def prepare(self) -> None:
        """Import the SDK and make its client; doing it again does nothing."""
        if self._sdk is not None:
            return
        if self._loading is None:
            self._loading = asyncio.Lock()
        async with self._loading:
            if self._sdk is None:
                self._http, self._sdk = await asyncio.to_thread(self._connect)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Call the model once; raises `ModelError`."""
        async with aclosing(self._answer(request)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def observed(
        self, request: ModelRequest, told: OnExchange
    ) -> AsyncGenerator[ModelChunk, None]:
        """Call the model as `stream` does, telling each HTTP exchange."""
        async with aclosing(self._answer(request, told)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Let go of connections; closing twice does nothing."""
        http, self._http, self._sdk = self._http, None, None
        if http is not None:
            await http.aclose()

    async def body(self, request: ModelRequest) -> JsonObject:
        """Write the body that a request is sent as."""
        turns = turns_of(request, self._spec, self.API)
        contents = await contents_of(turns, self._spec, self._access.artifacts)
        written = self.write(request, turns, contents)
        return {**written, **request.params}

    async def _answer(
        self, request: ModelRequest, told: OnExchange | None = None
    ) -> AsyncGenerator[ModelChunk, None]:
        await self.prepare()
        from loom_ia.adapters.models.documents import DONE, documents, drain

        response: httpx2.Response | None = None
        try:
            response = await self._send(request, told)
            reader = self.reader()
            async with aclosing(documents(response)) as coming:
                async for data, is_whole in coming:
                    self._refuse_error(data)
                    for chunk in reader.document(data) if is_whole else reader.event(data):
                        yield chunk
                    if reader.ended or data is DONE:
                        break
                for chunk in reader.finish():
                    yield chunk
                await drain(coming)
        except ModelError:
            raise
        except Exception as error:
            raise self._fault(error, begun=response is not None) from error
        finally:
            if response is not None:
                await response.aclose()

    async def _send(self, request: ModelRequest, told: OnExchange | None) -> "httpx2.Response":
        """Send a request, and once more without its thoughts if the provider refuses them.

        A provider seals thoughts to what stood before them, to an account, to a version: what was
        valid may no longer be, and a conversation must not end for it. The refusal costs nothing.
        """
        try:
            return await self._post(await self.body(request), told)
        except Exception as error:
            bare = without_thoughts(request)
            if bare is request or not _refuses_thoughts(error):
                raise
        return await self._post(await self.body(bare), told)

    async def _post(self, body: JsonObject, told: OnExchange | None) -> "httpx2.Response":
        observation = self._observation(told) if told is not None else None
        token = _OBSERVATION.set(observation)
        try:
            stream = await self._sdk.post(
                self._access.path or self.PATH,
                body=body,
                cast_to=object,
                stream=True,
                stream_cls=self.stream_class(),
            )
        except BaseException as error:
            if observation is not None:
                observation.failed(error)
            raise
        finally:
            _OBSERVATION.reset(token)
        return cast("httpx2.Response", stream.response)

    def _observation(self, told: OnExchange) -> "Observation":
        from loom_ia.adapters.models.capture import Observation

        access = self._access
        return Observation(told, secret=access.api_key, max_bytes=access.raw_max_bytes)

    @abstractmethod
    def stream_class(self) -> type[Any]:
        """Give the SDK's class of streams."""

    def _refuse_error(self, data: Mapping[str, Any]) -> None:
        """Raise the error that came in the place of an answer, or inside one."""
        error = data.get("error")
        if error or data.get("type") == "error" or data.get("object") == "error":
            raise model_error(self._spec, fault_of(dict(data)), secret=self._access.api_key)

    def _fault(self, error: Exception, *, begun: bool) -> Exception:
        """Give what an exception of the SDK, or of what is below it, means.

        `begun` tells whether the answer had begun to come.
        """
        import httpx2

        secret = self._access.api_key
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            response = getattr(error, "response", None)
            headers: Mapping[str, str] = response.headers if response is not None else {}
            body = getattr(error, "body", None)
            fault = fault_of(body if body is not None else str(error), status, headers)
            return model_error(self._spec, fault, secret=secret)
        causes = (error, error.__cause__)
        if any(isinstance(c, httpx2.HTTPError | httpx2.StreamError | OSError) for c in causes):
            cause = error.__cause__ or error
            said = str(cause) or type(cause).__name__
            what = "the answer was cut" if begun else "cannot be reached"
            return model_error(self._spec, fault_of(f"{what}: {said}"), secret=secret, cut=begun)
        # Before an answer, an SDK may have failed so in reading the body of an error.
        if not begun and not isinstance(error, _UNREADABLE_REFUSAL):
            return error
        return self._unreadable(error)

    def _unreadable(self, error: Exception) -> ModelError:
        """Give what it means that an answer could not be read; a fault of ours is logged."""
        if isinstance(error, _UNREADABLE):
            template = "{model} sent what cannot be read as JSON"
            return ModelError("transient", template, model=self._spec.id)
        # Where, and not what: the error itself may repeat what the provider said.
        place = extract_tb(error.__traceback__)[-1]
        kind, line = type(error).__name__, place.lineno
        _log.error("model %s: %s at %s:%s", self._spec.id, kind, place.filename, line)
        said = f"the answer was not understood: {type(error).__name__}"
        return model_error(self._spec, Fault(message=said))

    def _connect(self) -> tuple["httpx2.AsyncClient", Any]:
        import httpx2

        http = httpx2.AsyncClient(
            timeout=None,
            verify=httpx2.create_ssl_context(),
            trust_env=not is_here(self._spec.base_url),  # which is about proxies alone
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            event_hooks={"request": [_leaves], "response": [_arrives]},
        )
        return http, self.load(http, self._access.api_key or NO_KEY)

    def _refuse_own_keys(self) -> None:
        own = sorted(self.OWN_KEYS & self._spec.params.keys())
        if own:
            template = "{key} is written by the engine, and cannot be given in params"
            place = f"models[{self._spec.id}].params"
            raise ConfigError(
                [Problem("", None, f"{place}.{key}", template, {"key": key}) for key in own]
            )


def _refuses_thoughts(error: Exception) -> bool:
    """Whether a provider refuses a request for the thoughts that stand in it."""
    if getattr(error, "status_code", None) != 400:
        return False
    said = str(error)[:_MOST_READ], str(getattr(error, "body", ""))[:_MOST_READ]
    return bool(_THOUGHTS_REFUSED.search(" ".join(said)))


def is_here(url: str | None) -> bool:
    """Whether an address is one of this machine."""
    host = (urlsplit(url or "").hostname or "").rstrip(".")
    try:
        address = ip_address(host)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


async def _leaves(request: "httpx2.Request") -> None:
    """Drop the headers that an SDK takes from environment variables."""
    for name in list(request.headers):
        if name not in _HEADERS and not name.startswith("x-stainless-"):
            del request.headers[name]
    if (observation := _OBSERVATION.get()) is not None:
        observation.sent(request)


async def _arrives(response: "httpx2.Response") -> None:
    """Bound what is read of a response, beneath whoever watches the exchange."""
    from loom_ia.adapters.models.bodies import bounded

    if (observation := _OBSERVATION.get()) is not None:
        observation.answered(response)
    bounded(response)
