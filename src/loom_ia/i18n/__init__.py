"""What people read, in their language.

Law. A text is written once, in English, where it is said; that template is the key of the
catalogue. Parameters fill the translated template, so that nothing is ever matched in a sentence.
What is missing from a catalogue is said in English rather than not at all. What models read is
elsewhere: `core/prompts.py`.
"""

from loom_ia.i18n.catalogue import lookup, translate
from loom_ia.i18n.language import LANGUAGES, Language, chosen, current, speak
from loom_ia.i18n.render import lines, render
from loom_ia.i18n.values import count, day, moment

__all__ = [
    "LANGUAGES",
    "Language",
    "chosen",
    "count",
    "current",
    "day",
    "lines",
    "lookup",
    "moment",
    "render",
    "speak",
    "translate",
]
