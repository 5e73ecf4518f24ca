"""What the page of decisions looks like: HTML, in English and French, without a script.

Law. Whatever comes from outside is escaped, bounded, and shown with what is invisible in it made
visible: the person who decides sees what would be done.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from importlib.resources import files
from typing import Final

from loom_ia.access.http.answer_form import AnswerField, fields_of
from loom_ia.access.legible import legible
from loom_ia.app.linked import Linked, Settled
from loom_ia.core.json import JsonObject, JsonValue
from loom_ia.core.views.notice import ASKS
from loom_ia.core.views.result import PendingApproval
from loom_ia.i18n import LANGUAGES, Language, day
from loom_ia.i18n import translate as _

CSS: Final = files("loom_ia.access.http").joinpath("confirm.css").read_text("utf-8")
_DIGEST: Final = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
LONGEST_NAME: Final = 100
LONGEST_REASON: Final = 1_000
_LONGEST_VALUE: Final = 20_000
_LONG_VALUE: Final = 600
_SHORT_VALUE: Final = 80
_LONGEST_TITLE: Final = 2_000
_MOST_ROWS: Final = 60
_NAMES: Final[Mapping[Language, str]] = {"en": "English", "fr": "Français"}
_MARKS: Final[Mapping[str, str]] = {"granted": "✓", "answered": "✓", "refused": "✕"}


@dataclass(frozen=True, slots=True)
class Typed:
    """What a form that was refused held, shown again; `fault` says why, `field` where."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    fault: str = ""
    field: str = ""


def asking_page(found: Linked, token: str, language: Language, typed: Typed | None = None) -> str:
    """Show what waits, and the form that decides."""
    pending, typed = found.pending, typed or Typed()
    is_question = pending.kind == "input"
    lead = _("{agent} asks you a question", agent=found.agent)
    if not is_question:
        lead = _("{agent} asks for your approval", agent=found.agent)
    title = _asked(pending) or pending.sentence
    parts = [f'<p class="who">{_text(lead)}</p>', f"<h1>{_text(_joined(title))}</h1>"]
    parts.append(f'<p class="when">{_text(_deadline(found))}</p>')
    if typed.fault:
        parts.append(f'<p class="fault" role="alert" id="fault">{_text(typed.fault)}</p>')
    if pending.kind == "unknown_effect":
        said = _("This was interrupted, and may have been done already: approving does it again.")
        parts.append(f'<p class="note">{_text(said)}</p>')
    elif found.irreversible:
        parts.append(f'<p class="note">{_text(_("Once done, this cannot be undone."))}</p>')
    if pending.reason and pending.kind != "unknown_effect":
        parts.append(f"<h2>{_text(_('Why you are asked'))}</h2><p>{_text(pending.reason)}</p>")
    if pending.arguments:
        title = _("What would be done: {tool}", tool=pending.tool_name)
        parts += [f"<h2>{_text(title)}</h2>", *_table(pending.arguments)]
    elif isinstance(pending.payload, dict) and len(pending.payload) > bool(_asked(pending)):
        parts += [f"<h2>{_text(_('What is shown with it'))}</h2>", *_table(pending.payload)]
    parts += _form(found, token, typed)
    footer = _("Opening this page decides nothing.")
    return _page(title, parts, language, footer)


def settled_page(found: Linked, language: Language) -> str:
    """Show how it ended, and by whom."""
    settled = found.settled or Settled("closed")
    title, said = _ending(settled)
    look = settled.how if settled.how in _MARKS else "none"
    mark = _MARKS.get(settled.how, "–")
    parts = [f'<div class="mark {look}" aria-hidden="true">{mark}</div>']
    parts.append(f"<h1>{_text(title)}</h1>")
    if found.pending.sentence:
        parts.append(f"<p>{_text(_joined(found.pending.sentence))}</p>")
    parts.append(f'<p class="when">{_text(said)}</p>')
    if settled.reason:
        parts.append(f"<h2>{_text(_('Reason'))}</h2><p>{_text(settled.reason)}</p>")
    parts.append(f"<p>{_text(_('There is nothing left to do here: you can close this page.'))}</p>")
    return _page(title, parts, language)


def refusal_page(title: str, remedy: str, language: Language) -> str:
    """Say why nothing can be decided here, and what to do."""
    parts = ['<div class="mark none" aria-hidden="true">!</div>', f"<h1>{_text(title)}</h1>"]
    parts.append(f"<p>{_text(remedy)}</p>")
    return _page(title, parts, language)


def _page(title: str, parts: Iterable[str], language: Language, footer: str = "") -> str:
    others = " · ".join(
        f'<a href="?lang={other}" lang="{other}" hreflang="{other}">{_NAMES[other]}</a>'
        for other in LANGUAGES
        if other != language
    )
    return (
        f'<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="robots" content="noindex, nofollow, noarchive">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title[:120])}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f'<header><span>Loom-IA</span><nav aria-label="{_text(_("Language"))}">{others}</nav>'
        f"</header>\n<main>\n<section>\n{chr(10).join(parts)}\n</section>\n</main>\n"
        f"<footer>{_text(footer)}</footer>\n</body>\n</html>\n"
    )


def _form(found: Linked, token: str, typed: Typed) -> Iterator[str]:
    is_question = found.pending.kind == "input"
    yield '<form method="post" accept-charset="utf-8" autocomplete="off" novalidate>'
    # The first button is what the key Enter presses in a field: it must decide nothing.
    yield '<button type="submit" disabled hidden></button>'
    yield f'<input type="hidden" name="token" value="{_text(token)}">'
    if is_question:
        for each in fields_of(found.pending.answer_schema):
            yield from _field(each, typed)
    yield from _optional("name", _("Your name"), LONGEST_NAME, typed)
    yield from _optional("reason", _("Reason"), LONGEST_REASON, typed)
    if is_question:
        yield '<div class="actions one">'
        yield _button("accorder", "yes", _("Send the answer"))
    else:
        yield '<div class="actions">'
        yield _button("refuser", "no", _("Refuse"))
        yield _button("accorder", "yes", _("Approve"))
    yield "</div></form>"


def _button(value: str, look: str, said: str) -> str:
    what = f'name="decision" value="{value}" class="{look}"'
    return f'<button type="submit" {what}>{_text(said)}</button>'


def _optional(name: str, label: str, longest: int, typed: Typed) -> Iterator[str]:
    optional = f'<span class="optional">{_text(_("(optional)"))}</span>'
    yield f'<label for="{name}">{_text(label)} {optional}</label>'
    value = _text(typed.values.get(name, ""))
    yield f'<input type="text" id="{name}" name="{name}" maxlength="{longest}" value="{value}">'


def _field(each: AnswerField, typed: Typed) -> Iterator[str]:
    name, at = _text(each.name), each.name
    value = typed.values.get(at)
    if value is None:
        value = _default(each)
    label = each.label or (_("Your answer, in JSON") if each.kind == "json" else _("Your answer"))
    optional = "" if each.required else f' <span class="optional">{_text(_("(optional)"))}</span>'
    hint = f'<span class="hint" id="{name}-hint">{_text(each.hint)}</span>' if each.hint else ""
    about = [f"{name}-hint"] if each.hint else []
    about += ["fault"] if typed.fault and typed.field == at else []
    more = f' aria-describedby="{" ".join(about)}"' if about else ""
    more += ' aria-invalid="true"' if typed.field == at else ""
    if each.kind in ("boolean", "choice"):
        yield f"<fieldset{more}><legend>{_text(label)}{optional}</legend>{hint}"
        for key, said in _choices(each):
            on = " checked" if value == key else ""
            yield (
                f'<label class="choice"><input type="radio" name="{name}" value="{key}"{on}> '
                f"{_text(said)}</label>"
            )
        yield "</fieldset>"
        return
    yield f'<label for="{name}">{_text(label)}{optional}</label>{hint}'
    more += " required" if each.required else ""
    if each.kind in ("long", "json"):
        yield f'<textarea id="{name}" name="{name}" rows="4"{more}>\n{_text(value)}</textarea>'
        return
    mode = {"integer": "numeric", "number": "decimal"}.get(each.kind, "text")
    yield (
        f'<input type="text" id="{name}" name="{name}" inputmode="{mode}" '
        f'value="{_text(value)}"{more}>'
    )


def _choices(each: AnswerField) -> Iterator[tuple[str, str]]:
    if each.kind == "boolean":
        yield "true", _("Yes")
        yield "false", _("No")
        return
    for rank, choice in enumerate(each.choices):
        yield str(rank), choice if isinstance(choice, str) else _plain(choice)


def _default(each: AnswerField) -> str:
    default = each.default
    if default is None:
        return ""
    if each.kind == "choice":
        return str(each.choices.index(default)) if default in each.choices else ""
    if isinstance(default, bool):
        return "true" if default else "false"
    return default if isinstance(default, str) else _plain(default)


def _table(values: JsonObject) -> Iterator[str]:
    yield "<table><tbody>"
    short_first = sorted(values.items(), key=lambda pair: _is_long(pair[1]))
    for rank, (name, value) in enumerate(short_first):
        if rank == _MOST_ROWS:
            left = len(values) - rank
            said = _("{count} more values are not shown", count=left)
            yield f'<tr><th scope="row">…</th><td>{_text(said)}</td></tr>'
            break
        text = value if isinstance(value, str) else _plain(value)
        shown, more = text[:_LONGEST_VALUE], len(text) - _LONGEST_VALUE
        if more > 0:
            shown += "\n" + _("… {count} more characters are not shown", count=more)
        long = ' class="long" tabindex="0"' if len(shown) > _LONG_VALUE else ""
        cell = _text(shown)
        if isinstance(value, dict | list):
            cell = f"<pre>{cell}</pre>"
        yield f'<tr><th scope="row">{_text(name[:200])}</th><td{long}>{cell}</td></tr>'
    yield "</tbody></table>"


def _plain(value: JsonValue) -> str:
    import json

    match value:
        case None:
            return "—"
        case bool():
            return _("Yes") if value else _("No")
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, indent=1)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _is_long(value: JsonValue) -> bool:
    """Whether a value takes more than a line or so: those that do are shown last."""
    text = value if isinstance(value, str) else _plain(value)
    return "\n" in text or len(text) > _SHORT_VALUE


def _asked(pending: PendingApproval) -> str:
    """Give the text that a step asks; empty when it asks otherwise."""
    payload = pending.payload if pending.kind == "input" else None
    if isinstance(payload, dict):
        payload = next((payload[key] for key in ASKS if key in payload), None)
    return payload[:_LONGEST_TITLE] if isinstance(payload, str) else ""


def _joined(text: str) -> str:
    """Keep French punctuation, and the groups of a number, on the line of what they follow."""
    text = re.sub(r" ([:;?!»€%])", "\u00a0\\1", text).replace("« ", "«\u00a0")
    return re.sub(r"(?<=\d) (?=\d{3}(\D|$))", "\u00a0", text)


def _deadline(found: Linked) -> str:
    limit = min(filter(None, (found.expires_at, found.pending.expire_at)))
    return _(
        "You can decide until {instant} UTC ({left} left)",
        instant=_instant(limit),
        left=_span(limit - (found.read_at or limit)),
    )


def _instant(instant: datetime) -> str:
    utc = instant.astimezone(UTC)
    return f"{day(utc)} {utc:%H:%M}"


def _span(left: timedelta) -> str:
    minutes = max(0, int(left.total_seconds() // 60))
    if minutes >= 2 * 24 * 60:
        return _("{count} days", count=minutes // (24 * 60))
    if minutes >= 2 * 60:
        return _("{count} h", count=minutes // 60)
    return _("{count} min", count=minutes)


def _ending(settled: Settled) -> tuple[str, str]:
    at = "" if settled.at is None else _instant(settled.at)
    match settled.how:
        case "granted":
            return _("Approved"), _("By {by}, on {at} UTC.", by=settled.by, at=at)
        case "answered":
            return _("Answered"), _("By {by}, on {at} UTC.", by=settled.by, at=at)
        case "refused":
            return _("Refused"), _("By {by}, on {at} UTC.", by=settled.by, at=at)
        case "expired":
            said = _("Nobody decided before {at} UTC. What follows was settled without you.", at=at)
            return _("Too late"), said
        case "closed":
            return _("No longer needed"), _("The work was over before anybody decided.")


def _text(value: str) -> str:
    """Escape a text; what is invisible in it is shown by its number."""
    return escape(legible(value), quote=True)
