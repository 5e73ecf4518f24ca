"""Where notices go, ready to be sent; and the secrets that sign links."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from loom_ia.assembly.backends import BACKENDS, factory
from loom_ia.config.document import KeyPath
from loom_ia.config.load import LoadedConfig
from loom_ia.config.server import NoticeTarget
from loom_ia.core.errors import Problem
from loom_ia.core.ports.clock import Clock
from loom_ia.core.ports.notices import Addressee, NoticeSender

SHORTEST_SECRET: Final = 16


@dataclass(frozen=True, slots=True)
class Announcing:
    """The targets of a configuration, and the secrets of its links, the one that signs first."""

    addressees: tuple[Addressee, ...]
    secrets: tuple[str, ...]


def announcing(loaded: LoadedConfig, clock: Clock) -> Announcing:
    """Make every target; a variable that is missing is told by `notice_problems`."""
    notices = loaded.config.notices
    named = (notices.secret_env, notices.previous_secret_env)
    secrets = (loaded.secret(name) for name in named if name is not None)
    return Announcing(
        tuple(
            Addressee(
                target.name,
                _sender(loaded, target, clock),
                frozenset(target.agents),
                target.max_attempts,
                target.timeout,
            )
            for target in notices.targets
        ),
        tuple(secret for secret in secrets if secret),
    )


def _sender(loaded: LoadedConfig, target: NoticeTarget, clock: Clock) -> NoticeSender:
    if target.url is None:
        make = factory("notice", "command")
        return cast("NoticeSender", make(target.command, loaded.base_dir, target.timeout))
    headers = {name: loaded.secret(variable) for name, variable in target.headers_env.items()}
    secret = loaded.secret(target.secret_env) if target.secret_env else ""
    make = factory("notice", "webhook")
    return cast("NoticeSender", make(target.url, clock, target.timeout, headers, secret))


def notice_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Say what this machine lacks: a variable, or what a webhook is posted with."""
    notices = loaded.config.notices
    for key in ("secret_env", "previous_secret_env"):
        name: str | None = getattr(notices, key)
        if name is None:
            continue
        path: KeyPath = ("notices", key)
        if key == "secret_env" or loaded.secret(name):
            yield from _of_secret(loaded, path, name)
    for position, target in enumerate(notices.targets):
        at: KeyPath = ("notices", "targets", position)
        backend = BACKENDS["notice", "webhook"]
        if target.url is not None and not backend.is_installed:
            template = 'a webhook needs the extra {extra} (pip install "loom-ia[{extra}]")'
            yield loaded.problem((*at, "url"), template, extra=backend.extra)
        for header, name in target.headers_env.items():
            yield from _of_variable(loaded, (*at, "headers_env", header), name)
        if target.secret_env is not None:
            yield from _of_secret(loaded, (*at, "secret_env"), target.secret_env)


def _of_variable(loaded: LoadedConfig, path: KeyPath, name: str) -> Iterator[Problem]:
    value = loaded.secret(name)
    if not value:
        template = "the variable {name} is not defined, or is empty"
        yield loaded.problem(path, template, name=name)
    elif not value.isascii() or not value.isprintable():
        template = "the variable {name} holds what no header can: an accent or an end of line"
        yield loaded.problem(path, template, name=name)


def _of_secret(loaded: LoadedConfig, path: KeyPath, name: str) -> Iterator[Problem]:
    if len(loaded.secret(name)) < SHORTEST_SECRET:
        template = (
            "the variable {name} is not defined, or is too short for a secret (give it "
            "{least} characters drawn at random, or more)"
        )
        yield loaded.problem(path, template, name=name, least=SHORTEST_SECRET)
