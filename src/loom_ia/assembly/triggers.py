"""The triggers of the configuration, ready to be called."""

from collections.abc import Callable, Iterator

from loom_ia.config.root import LoomConfig
from loom_ia.config.server import TriggerSpec
from loom_ia.core.errors import UnknownTrigger
from loom_ia.core.model.triggers import Trigger
from loom_ia.core.template import Template
from loom_ia.tenancy.signatures import is_signed


class Triggers:
    """The triggers of an instance, by name. `secret` gives the value of a variable."""

    def __init__(self, config: LoomConfig, secret: Callable[[str], str]) -> None:
        self._specs = {spec.name: spec for spec in config.triggers}
        self._made = {spec.name: _made(spec) for spec in config.triggers}
        self._secret = secret

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def find(self, name: str) -> Trigger:
        """Give a trigger; raises `UnknownTrigger`."""
        found = self._made.get(name)
        if found is None:
            raise UnknownTrigger(
                "there is no trigger {trigger!r}: triggers are declared under triggers",
                trigger=name[:80],
            )
        return found

    def spec(self, name: str) -> TriggerSpec | None:
        """Give what was written of a trigger, if there is one."""
        return self._specs.get(name)

    def is_signed(self, name: str, body: bytes, signature: str | None) -> bool:
        """Tell whether a body is signed with the secret of a trigger: never, if it has none."""
        spec = self._specs.get(name)
        if spec is None or spec.secret_env is None:
            return False
        return is_signed(body, signature, self._secret(spec.secret_env))


def _made(spec: TriggerSpec) -> Trigger:
    return Trigger(
        name=spec.name,
        agent=spec.agent,
        message=Template.parse(spec.message),
        session=Template.parse(spec.session) if spec.session is not None else None,
        needs_delivery=spec.delivery_header is not None,
    )
