"""`loom keys create`: make an API key, show it once, and say what to write of it.

Law. The key goes to standard output alone, so that it can be piped to where it is kept; it is
written nowhere, and what is to be pasted in the configuration holds its digest.
"""

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from loom_ia.core.errors import CallerError, ConfigError
from loom_ia.core.model.scopes import SCOPES
from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from loom_ia.config.load import LoadedConfig
    from loom_ia.config.server import ApiKeySpec

_UNITS: Final = {"d": "days", "j": "days", "h": "hours", "m": "minutes"}
_SPAN: Final = re.compile(r"([0-9]{1,9})([djhm])")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOST_A_MINUTE: Final = 100_000
_DEFAULT_SCOPES: Final = ("run", "read")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what can be done with keys."""
    from loom_ia.access.cli.arguments import add_command

    actions = parser.add_subparsers(
        title=_("commands"), dest="action", metavar="ACTION", required=True
    )
    create = add_command(actions, "create", _("make an API key, shown once, and what to write"))
    create.add_argument("id", metavar="ID", help=_("its name, which signs what is done with it"))
    create.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        help=_("what it may do, once for each (default: run and read)"),
    )
    create.add_argument(
        "--agent",
        metavar="NAME",
        action="append",
        default=[],
        help=_("an agent that it may use, once for each (default: all)"),
    )
    create.add_argument(
        "--tenant",
        metavar="ID",
        default="default",
        help=_("the client in whose name it acts (default: default)"),
    )
    create.add_argument(
        "--expires",
        metavar="WHEN",
        help=_("until when: 90d (or 90j), 12h, 30m, a date, or an instant with its time zone"),
    )
    create.add_argument(
        "--rate-limit", metavar="N", type=int, help=_("how often it may be used in a minute")
    )
    create.add_argument("--json", action="store_true", help=_("show it as JSON"))


def execute(args: argparse.Namespace) -> int:
    """Make a key."""
    from loom_ia.access.cli.failures import COMPLETED
    from loom_ia.access.cli.terminal import say, show, show_json
    from loom_ia.tenancy.keys import new_key

    secret, digest = new_key()
    spec = _spec(args, digest, datetime.now(UTC))
    loaded = _loaded(args)
    if loaded is not None:
        _require_known(loaded, spec)
    if "approve" in spec.scopes and "read_content" not in spec.scopes:
        text = _("approve without read_content: whoever decides will not see what he decides on")
        say(_("Warning    : {problem}", problem=text), "yellow")
    entry = _entry(spec)
    if args.json:
        show_json({"key": secret, "entry": entry})
        return COMPLETED
    say(_("The key, shown this once: keep it where secrets are kept."))
    show(secret)
    say()
    say(_("Write this in the configuration:"))
    say()
    has_keys = loaded is not None and bool(loaded.config.security.api_keys)
    for line in _fragment(entry, has_keys=has_keys):
        say(line)
    return COMPLETED


def _spec(args: argparse.Namespace, digest: str, now: datetime) -> "ApiKeySpec":
    from pydantic import ValidationError

    from loom_ia.config.server import ApiKeySpec, RateLimit

    if args.tenant != "default":
        raise CallerError(
            "there is no client {tenant}: only default is served in this version",
            tenant=args.tenant,
        )
    if args.rate_limit is not None and not 1 <= args.rate_limit <= _MOST_A_MINUTE:
        raise CallerError(
            "--rate-limit is between 1 and {most}, not {limit}",
            most=_MOST_A_MINUTE,
            limit=args.rate_limit,
        )
    limit = RateLimit(per_minute=args.rate_limit) if args.rate_limit is not None else None
    try:
        return ApiKeySpec(
            id=args.id,
            hash=digest,
            scopes=tuple(dict.fromkeys(args.scope or _DEFAULT_SCOPES)),
            agents=tuple(dict.fromkeys(args.agent)),
            rate_limit=limit,
            expires=expiry(args.expires, now) if args.expires is not None else None,
        )
    except ValidationError:
        raise CallerError(
            "{id!r} cannot be the id of a key: at most 64 letters, digits, '.', '_' or '-', "
            "starting with a letter or a digit",
            id=args.id[:80],
        ) from None


def expiry(text: str, now: datetime) -> datetime:
    """Read until when a key is good: a span from `now`, a date in UTC, or an instant.

    Raises `CallerError` for what is none, and for what is over.
    """
    try:
        found = _instant(text.strip().lower(), now)
    except (ValueError, OverflowError):
        raise CallerError(
            "--expires is 90d (or 90j), 12h, 30m, a date such as 2027-01-08, or an instant such as "
            "2027-01-08T09:00:00Z, not {text}",
            text=text,
        ) from None
    if found.tzinfo is None:
        raise CallerError(
            "--expires needs a time zone: write {example}", example=f"{text.strip()}Z"
        )
    if found <= now:
        raise CallerError("--expires is over already: {text}", text=text)
    return found.astimezone(UTC).replace(microsecond=0)


def _instant(text: str, now: datetime) -> datetime:
    if span := _SPAN.fullmatch(text):
        return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    return datetime.fromisoformat(text.upper())


def _loaded(args: argparse.Namespace) -> "LoadedConfig | None":
    """Read the configuration, if there is one, to check names against it."""
    from pathlib import Path

    from loom_ia.access.cli.arguments import config_path, profile
    from loom_ia.access.cli.terminal import say
    from loom_ia.access.cli.variables import variables
    from loom_ia.config.load import load_config

    path = config_path(args)
    if not Path(path).exists() and not hasattr(args, "config"):
        return None
    try:
        with variables(args):
            return load_config(path, profile=profile(args))
    except ConfigError:
        if not Path(path).exists():
            raise
        # it may be at fault for want of this very key
        text = _("the configuration has faults (loom validate): no name was checked against it")
        say(_("Warning    : {problem}", problem=text), "yellow")
        return None


def _require_known(loaded: "LoadedConfig", spec: "ApiKeySpec") -> None:
    config = loaded.config
    if any(key.id == spec.id for key in config.security.api_keys):
        raise CallerError(
            "the key {id} is declared already: choose another id, or remove it first", id=spec.id
        )
    declared = [each.name for each in (*config.agents, *config.graphs)]
    for name in spec.agents:
        if name not in declared:
            raise CallerError(
                "there is no agent {agent!r}; agents: {agents}",
                agent=name,
                agents=", ".join(declared) or "none",
            )


def _entry(spec: "ApiKeySpec") -> dict[str, object]:
    """Give what is to be written of a key, without what goes without saying."""
    entry: dict[str, object] = {"id": spec.id, "hash": spec.hash, "scopes": list(spec.scopes)}
    if spec.agents:
        entry["agents"] = list(spec.agents)
    if spec.rate_limit is not None:
        entry["rate_limit"] = {"per_minute": spec.rate_limit.per_minute}
    if spec.expires is not None:
        entry["expires"] = spec.expires.strftime("%Y-%m-%dT%H:%M:%SZ")
    return entry


def _fragment(entry: dict[str, object], *, has_keys: bool) -> list[str]:
    """Write an entry as YAML, where it goes: after the keys that there are, or with the section."""
    import yaml

    text: str = yaml.dump(  # pyright: ignore[reportUnknownMemberType] -- its stubs do not tell
        entry, Dumper=yaml.SafeDumper, sort_keys=False, default_flow_style=None, width=1_000
    )
    lines = [("    - " if i == 0 else "      ") + line for i, line in enumerate(text.splitlines())]
    head = [_("# under security.api_keys")] if has_keys else ["security:", "  api_keys:"]
    return [*head, *lines]
