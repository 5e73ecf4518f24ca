"""Whether what a page shows is what really came out, save for what differs each time.

Ids, instants, durations and names of workers may be others; an id stands for the same one all
along a page. A line `…` stands for any lines, and `…` inside a line for any text.
"""

import re

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
_VARIES = re.compile(
    rf"(?P<id>{_UUID})"
    r"|(?P<instant>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00))"
    r"|(?P<moment>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
    r"|(?P<duration>\d+(?:[.,]\d+)? ?(?:ms|s)\b)"
    r"|(?P<worker>worker-[0-9a-f]{12})"
    r"|(?P<any>…)"
)
_PATTERNS = {
    "instant": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)",
    "moment": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "duration": r"\d+(?:[.,]\d+)? ?(?:ms|s)",
    "worker": r"worker-[0-9a-f]{12}",
    "any": r".*?",
}


def matches(shown: list[str], real: list[str], ids: dict[str, str]) -> bool:
    """Tell whether the lines agree; learns in `ids` which real id each shown one stands for."""
    if not shown:
        return not real
    if shown[0].strip() == "…":
        return any(matches(shown[1:], real[skipped:], ids) for skipped in range(len(real) + 1))
    if not real:
        return False
    learnt = dict(ids)
    if not _line_matches(shown[0].rstrip(), real[0].rstrip(), learnt):
        return False
    if not matches(shown[1:], real[1:], learnt):
        return False
    ids.update(learnt)
    return True


def with_real_ids(text: str, ids: dict[str, str]) -> str:
    """Put the real ids in place of the shown ones."""
    return re.sub(_UUID, lambda found: ids.get(found[0], found[0]), text)


def _line_matches(shown: str, real: str, ids: dict[str, str]) -> bool:
    new: list[str] = []
    pattern, at = "", 0
    for found in _VARIES.finditer(shown):
        pattern += re.escape(shown[at : found.start()])
        at = found.end()
        kind = str(found.lastgroup)
        if kind != "id":
            pattern += _PATTERNS[kind]
        elif found[0] in ids:
            pattern += re.escape(ids[found[0]])
        elif found[0] in new:
            pattern += f"(?P=id{new.index(found[0])})"
        else:
            pattern += f"(?P<id{len(new)}>{_UUID})"
            new.append(found[0])
    agreed = re.fullmatch(pattern + re.escape(shown[at:]), real)
    if agreed:
        ids.update({known: agreed[f"id{position}"] for position, known in enumerate(new)})
    return agreed is not None
