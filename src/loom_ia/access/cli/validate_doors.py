"""What `loom validate` shows of who may come in: keys, MCP over HTTP, triggers, and notices."""

from typing import TYPE_CHECKING

from loom_ia.i18n import translate as _

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from loom_ia.access.cli.desk import Desk
    from loom_ia.config.server import ApiKeySpec, NoticeTarget, TriggerSpec
    from loom_ia.core.errors import Problem


def rows_of_doors(desk: "Desk") -> "Iterator[tuple[str, str]]":
    """Give the keys and the doors that are declared; what is not has no row."""
    from datetime import UTC, datetime

    config, now = desk.config, datetime.now(UTC)
    if keys := config.security.api_keys:
        yield _("API keys"), ", ".join(_key(key, now) for key in keys)
    if config.server.mcp.http:
        yield _("MCP HTTP"), f"{config.server.http.base_path}/mcp"
    if triggers := config.triggers:
        yield _("Triggers"), ", ".join(map(_trigger, triggers))
    if targets := config.notices.targets:
        yield _("Notices"), ", ".join(map(_target, targets))
    if config.notices.public_url is not None:
        yield _("Links"), f"{config.notices.public_url.rstrip('/')}/decide/…"


def warnings_of_doors(desk: "Desk") -> "tuple[Problem, ...]":
    """Check what matters to who serves, where something is said of doors; give the warnings.

    Raises `ConfigError` for a secret of a trigger that is not there.
    """
    config = desk.config
    if not (config.triggers or "server" in config.model_fields_set or config.security.api_keys):
        return ()
    return desk.check_serving()


def _key(key: "ApiKeySpec", now: "datetime") -> str:
    said = [", ".join(key.scopes)]
    if key.agents:
        said.append(_("for {agents}", agents=", ".join(key.agents)))
    if key.rate_limit is not None:
        said.append(_("{count} a minute", count=key.rate_limit.per_minute))
    if key.expires is not None:
        day = key.expires.strftime("%Y-%m-%d")
        is_over = key.expires <= now
        said.append(_("expired on {day}", day=day) if is_over else _("until {day}", day=day))
    return f"{key.id} ({'; '.join(said)})"


def _trigger(trigger: "TriggerSpec") -> str:
    said = f"{trigger.name} → {trigger.agent}"
    notes = [] if trigger.delivery_header is None else [trigger.delivery_header]
    if trigger.secret_env is not None:
        notes.append(_("signed"))
    return f"{said} ({', '.join(notes)})" if notes else said


def _target(target: "NoticeTarget") -> str:
    from urllib.parse import urlsplit

    # The path of a webhook is often its secret.
    where = target.command[0] if target.url is None else urlsplit(target.url).netloc
    said = f"{target.name} → {where}"
    return (
        f"{said} ({_('for {agents}', agents=', '.join(target.agents))})" if target.agents else said
    )
