"""The quirks themselves: a reader that knows them all, and no SDK, finds what each one expects."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest

from tests.providers.quirks import ANTHROPIC, CHAT, RESPONSES, Broken, Quirk, Understood, by_name
from tests.providers.replies import Stop, Tokens
from tests.providers.server import Provider

_LINE_END = re.compile("\r\n|\n|\r")


class Failed(Exception):
    """There is no answer."""

    def __init__(self, why: str, says: str = "") -> None:
        super().__init__(why, says)
        self.why = why
        self.says = says


@dataclass
class Call:
    """A call while it is put together."""

    index: Any = None
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class Reading:
    """An answer while it is put together; `stop` is None until it ended."""

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list[Call])
    usage: Tokens | None = None
    stop: Stop | None = None
    declined: bool = False

    def understood(self) -> Understood:
        """Give the whole answer."""
        if self.stop is None:
            raise Failed("cut")
        stop = "tool_use" if self.calls and self.stop == "end" else self.stop
        given = [call.index for call in self.calls]
        has_order = all(isinstance(n, int) for n in given) and len(set(given)) == len(given)
        ranked = sorted(self.calls, key=lambda call: call.index) if has_order else self.calls
        calls = tuple((call.name, _object(call.arguments or "{}")) for call in ranked)
        ids = tuple(call.id for call in ranked)
        known = ids if all(ids) and len(set(ids)) == len(ids) else ()
        return Understood(_mended(self.text), self.reasoning, calls, known, self.usage, stop)


def _mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _object(text: str) -> Any:
    if "\\ud83d" in text:  # a strict reader refuses half a character
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def events_of(got: httpx2.Response) -> Iterator[tuple[str, str]]:
    """Read server-sent events as their standard says."""
    event, data = "", list[str]()
    for line in _LINE_END.split(got.content.decode("utf-8-sig")):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line:
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            continue
        if data:
            yield event, "\n".join(data)
        event, data = "", []


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise Failed("unreadable") from None
    if not isinstance(value, dict):
        raise Failed("unreadable")
    return value


def _told(data: dict[str, Any]) -> None:
    """Raise what a provider says that failed."""
    found = data.get("error")
    if found:
        raise Failed("told", found["message"] if isinstance(found, dict) else found)
    if data.get("object") == "error" or data.get("type") == "error":
        raise Failed("told", data["message"])


# ── Chat completions ────────────────────────────────────────────────────────────────────────────

_FINISH: dict[str, Stop] = {"content_filter": "refusal", "length": "max_tokens"}


def read_chat(got: httpx2.Response, reading: Reading) -> None:
    """Read a chat completion."""
    if "json" in got.headers["content-type"] and got.content:
        _chat_chunk(_json(got.text), reading)
        return
    for _, data in events_of(got):
        if data == "[DONE]":
            if reading == Reading():
                raise Failed("empty")
            reading.stop = reading.stop or "end"
            return
        _chat_chunk(_json(data), reading)


def _chat_chunk(chunk: dict[str, Any], reading: Reading) -> None:
    _told(chunk)
    if usage := chunk.get("usage"):
        reading.usage = _chat_usage(usage)
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or choice.get("message") or {}
        content = delta.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        reading.text += "".join(part["text"] for part in parts) + (delta.get("refusal") or "")
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        reading.reasoning += thought
        for piece in delta.get("tool_calls") or ():
            _piece(piece, reading.calls)
        if old := delta.get("function_call"):
            _piece({"index": 0, "function": old}, reading.calls)
        reading.declined = reading.declined or bool(delta.get("refusal"))
        if finish := choice.get("finish_reason"):
            reading.stop = "refusal" if reading.declined else _FINISH.get(finish, "end")


def _piece(piece: dict[str, Any], calls: list[Call]) -> None:
    index, call_id = piece.get("index"), piece.get("id") or ""
    function = piece.get("function") or {}
    name, arguments = function.get("name") or "", function.get("arguments") or ""
    call = _slot(index, call_id, name, calls)
    if call is None:
        call = Call(index)
        calls.append(call)
    call.id, call.name = call.id or call_id, call.name or name
    call.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)


def _slot(index: Any, id: str, name: str, calls: list[Call]) -> Call | None:
    """Find the call that a piece belongs to; None when it begins one."""
    beside = [call for call in calls if index is None or call.index == index]
    if id:
        return next((call for call in beside if call.id in ("", id)), None)
    if index is None and name:
        return None
    return beside[-1] if beside else None


def _chat_usage(usage: dict[str, Any]) -> Tokens:
    prompt = usage.get("prompt_tokens_details") or {}
    written = usage.get("completion_tokens_details") or {}
    cached = prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
    thought = written.get("reasoning_tokens") or 0
    read = usage["prompt_tokens"] - cached
    return Tokens(read, usage["completion_tokens"], cached, reasoning=thought)


# ── Messages ────────────────────────────────────────────────────────────────────────────────────

_STOPS: dict[str, Stop] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


def read_messages(got: httpx2.Response, reading: Reading) -> None:
    """Read a message of Anthropic."""
    if "json" in got.headers["content-type"] and got.content:
        message = _json(got.text)
        _told(message)
        reading.text = message["content"][0]["text"]
        reading.usage, reading.stop = _counted({}, message["usage"]), "end"
        return
    counted: dict[str, Any] = {}
    stop: Stop = "end"
    for event, data in events_of(got):
        if event == "error" and not data.startswith("{"):
            raise Failed("told", data)
        if not data:
            continue
        found = _json(data)
        _told(found)
        match found["type"]:
            case "message_start":
                opening = found["message"].get("usage")
                # What was written is not known yet, whatever is said of it here.
                reading.usage = _counted(counted, opening and {**opening, "output_tokens": 0})
            case "content_block_start":
                _block(found["content_block"], found["index"], reading)
            case "content_block_delta":
                _filled(found["delta"], found["index"], reading)
            case "message_delta":
                reading.usage = _counted(counted, found.get("usage")) or reading.usage
                stop = _STOPS.get(found["delta"].get("stop_reason") or "", stop)
            case "message_stop":
                reading.stop = stop
            case _:
                pass


def _block(block: dict[str, Any], index: int, reading: Reading) -> None:
    match block["type"]:
        case "text" | "thinking":
            _filled(block, index, reading)
        case "tool_use":
            given = json.dumps(block["input"]) if block["input"] else ""
            reading.calls.append(Call(index, block["id"], block["name"], given))
        case _:
            pass


def _filled(delta: dict[str, Any], index: int, reading: Reading) -> None:
    reading.text += delta.get("text", "")
    reading.reasoning += delta.get("thinking", "")
    for call in reading.calls:
        if call.index == index:
            call.arguments += delta.get("partial_json", "")


def _counted(counted: dict[str, Any], usage: dict[str, Any] | None) -> Tokens | None:
    """Count: what is told last counts, what is not told stays."""
    if not usage and not counted:
        return None
    counted.update({key: value for key, value in (usage or {}).items() if value is not None})
    split = counted.get("cache_creation")
    written = counted.get("cache_creation_input_tokens", 0)
    hour = split["ephemeral_1h_input_tokens"] if split else 0
    return Tokens(
        counted["input_tokens"],
        counted["output_tokens"],
        counted.get("cache_read_input_tokens", 0),
        written - hour,
        hour,
    )


# ── Responses ───────────────────────────────────────────────────────────────────────────────────


def read_responses(got: httpx2.Response, reading: Reading) -> None:
    """Read a response, from its last event and else from the items before."""
    if "json" in got.headers["content-type"] and got.content:
        response = _json(got.text)
        _told(response)
        _last(response, [], reading)
        return
    items: dict[int, dict[str, Any]] = {}
    for _, data in events_of(got):
        if data == "[DONE]":
            continue
        found = _json(data)
        _told(found)
        match found["type"]:
            case "response.output_text.delta" | "response.refusal.delta":
                reading.text += found["delta"]
            case "response.output_item.done":
                items[found["output_index"]] = found["item"]
            case "response.completed" | "response.incomplete" | "response.failed":
                _last(found["response"], list(items.values()), reading)
            case _:
                pass


def _last(response: dict[str, Any], items: list[dict[str, Any]], reading: Reading) -> None:
    if response["status"] == "failed":
        raise Failed("told", (response["error"] or {}).get("message", ""))
    reading.text = ""
    reading.stop = "end"
    reasoned = [item for item in items if item["type"] == "reasoning"]
    for item in {id(each): each for each in (*reasoned, *(response["output"] or items))}.values():
        match item["type"]:
            case "message":
                for part in item["content"]:
                    reading.text += part.get("text", "") + part.get("refusal", "")
                    reading.stop = "refusal" if "refusal" in part else reading.stop
            case "function_call":
                call = Call(None, item["call_id"], item["name"], item["arguments"])
                reading.calls.append(call)
            case "reasoning":
                parts = [*item["summary"], *item.get("content", ())]
                reading.reasoning = "\n\n".join(part["text"] for part in parts)
            case _:
                pass
    why = (response["incomplete_details"] or {}).get("reason")
    if why in _INCOMPLETE:
        reading.stop = _INCOMPLETE[why]
    if usage := response["usage"]:
        reading.usage = Tokens(usage["input_tokens"], usage["output_tokens"])


_INCOMPLETE: dict[Any, Stop] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


# ── The quirks ──────────────────────────────────────────────────────────────────────────────────

Read = Callable[[httpx2.Response, Reading], None]
ALL = [
    pytest.param(quirk, read, id=f"{name}: {quirk}")
    for name, quirks, read in (
        ("chat", CHAT, read_chat),
        ("messages", ANTHROPIC, read_messages),
        ("responses", RESPONSES, read_responses),
    )
    for quirk in quirks
]


def _outcome(got: httpx2.Response, read: Read) -> Understood | Broken:
    reading = Reading()
    try:
        if got.status_code != 200:
            return Broken("status", status=got.status_code)
        if not got.content:
            raise Failed("empty")
        if "html" in got.headers["content-type"]:
            raise Failed("unreadable")
        read(got, reading)
        return reading.understood()
    except Failed as failed:
        return Broken(failed.why, failed.says, reading.text)  # type: ignore[arg-type]


@pytest.mark.parametrize(("quirk", "read"), ALL)
async def test_a_quirk_can_be_understood(provider: Provider, quirk: Quirk, read: Read) -> None:
    """What the server sends holds what the quirk expects, neither more nor less."""
    provider.reply(quirk.reply)
    async with httpx2.AsyncClient() as http:
        got = await http.post(f"{provider.url}/v1/any", json={"stream": True, **quirk.asks})
    assert _outcome(got, read) == quirk.expected


@pytest.mark.parametrize("quirks", [CHAT, ANTHROPIC, RESPONSES], ids=len)
def test_the_name_of_a_quirk_is_its_own(quirks: tuple[Quirk, ...]) -> None:
    """No two quirks of a format bear the same name."""
    assert len({quirk.name for quirk in quirks}) == len(quirks)


def test_a_quirk_is_found_by_its_name() -> None:
    """`by_name` gives it, and the calls of six servers stand for two parallel calls each."""
    assert by_name("no index").expected == by_name("whole call in one delta").expected
    expected = by_name("index without id").expected
    assert isinstance(expected, Understood)
    assert replace(expected, ids=("call_a", "call_b")) == by_name("arguments as an object").expected
