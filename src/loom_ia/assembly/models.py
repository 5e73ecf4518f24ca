"""From the entries of `models` to clients: the key, the extra, and the code that speaks to each."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from loom_ia.assembly.backends import BACKENDS, factory
from loom_ia.assembly.keys import is_key
from loom_ia.config.load import LoadedConfig, PriceList
from loom_ia.config.places import key_path
from loom_ia.core.errors import ConfigError, Problem
from loom_ia.core.model.models import ModelSpec
from loom_ia.core.model.pricing import Pricing
from loom_ia.core.ports.artifacts import ArtifactStore
from loom_ia.core.ports.models import ModelAccess, ModelClient


class Models:
    """The clients of an instance, each made once, when it is first needed.

    `given` replaces some of them.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        given: Mapping[str, ModelClient],
        artifacts: ArtifactStore | None = None,
    ) -> None:
        self._loaded = loaded
        self._given = given
        self._artifacts = artifacts
        self._made: dict[str, ModelClient] = {}

    def __getitem__(self, model: str) -> ModelClient:
        """Give a client that was made."""
        return self._made[model]

    def own_keys(self, model: str) -> frozenset[str]:
        """Give the params that the client of a model writes itself."""
        return getattr(self._made.get(model), "OWN_KEYS", frozenset())

    def make(self, wanted: frozenset[str]) -> Iterator[Problem]:
        """Make the clients of `wanted`, and of every script; give what is wrong with them."""
        for position, spec in enumerate(self._loaded.config.models):
            if spec.id in self._made or not (spec.id in wanted or spec.sdk == "fake"):
                continue
            try:
                self._made[spec.id] = self._given.get(spec.id) or self.client(position, spec)
            except ConfigError as error:
                for problem in error.problems:
                    if problem.file:
                        yield problem
                        continue
                    inside = key_path(problem.path.removeprefix(f"models[{spec.id}]"))
                    place = self._loaded.problem(("models", position, *inside), "")
                    path = problem.path or place.path
                    yield replace(problem, file=place.file, line=place.line, path=path)

    def client(self, position: int, spec: ModelSpec) -> ModelClient:
        """Make the client of an entry; raises `ConfigError` when it cannot be."""
        name = "openai/responses" if spec.api == "responses" else spec.sdk
        backend = BACKENDS["model", name]
        problems: list[Problem] = []
        if not backend.is_installed:
            template = 'sdk: {sdk} needs the extra {extra} (pip install "loom-ia[{extra}]")'
            path = ("models", position, "sdk")
            problems.append(self._loaded.problem(path, template, sdk=spec.sdk, extra=backend.extra))
        key = self._loaded.secret(spec.api_key_env) if spec.api_key_env else None
        if key == "":
            template = (
                "the variable {name} is not defined, or is empty (give it the key of the provider)"
            )
            path = ("models", position, "api_key_env")
            problems.append(self._loaded.problem(path, template, name=spec.api_key_env))
        elif key is not None and not is_key(key):
            template = (
                "the variable {name} holds what is no key: there is a blank at an end, an end of "
                "line or a letter with an accent in it"
            )
            path = ("models", position, "api_key_env")
            problems.append(self._loaded.problem(path, template, name=spec.api_key_env))
        if problems:
            raise ConfigError(problems)
        raw_max_bytes = self._loaded.config.telemetry.capture.raw_max_bytes
        access = ModelAccess(key, self._artifacts, raw_max_bytes)
        return cast("ModelClient", factory("model", name)(spec, access))

    async def close(self) -> None:
        """Let go of every client."""
        for model in self._made.values():
            await model.close()


def price_list() -> PriceList | None:
    """Give the list of prices of the extra `prices`, None when it is not installed."""
    if not BACKENDS["prices", "genai"].is_installed:
        return None

    def prices(spec: ModelSpec) -> Pricing | None:
        if spec.sdk == "fake":
            return None
        return cast("Pricing | None", factory("prices", "genai")(spec))

    return prices
