"""The words that a specialist reads: a template that is filled, or sections between tags.

Law. What stands in a section cannot end it, nor begin another: our own tags in it lose their first
character's meaning, and nothing else of it changes.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, Final

from loom_ia.core.template import Template
from loom_ia.engine.material import ORDER, Gathered, Section

_TAG: Final = re.compile(rf"<(?=/?(?:{'|'.join(ORDER)})\b)", re.IGNORECASE)


def tagged(sections: Iterable[Section]) -> str:
    """Write sections in the order that is ours, each between its tags."""
    ranked = sorted(sections, key=lambda section: ORDER.index(section.name))
    return "\n\n".join(_tagged(section) for section in ranked)


def filled(template: Template, arguments: Mapping[str, Any], found: Gathered) -> str:
    """Fill a template with `args` and `context`."""
    return template.render({"args": arguments, "context": found.values})


def _tagged(section: Section) -> str:
    attributes = "".join(f' {name}="{escape(v)}"' for name, v in section.attributes.items())
    body = _TAG.sub("&lt;", section.body)
    return f"<{section.name}{attributes}>\n{body}\n</{section.name}>"
