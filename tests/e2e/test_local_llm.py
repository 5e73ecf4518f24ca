"""A run on a real model that is served here, and the server that guides it.

What needs the model is skipped unless `LOOM_E2E_LLM=1`, and needs what `make demo-llm` installs.
It checks what must be true of any model, and figures for the questions that this one holds.
"""

import http.client
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from loom_ia.access import Loom
from loom_ia.core.events import Event
from loom_ia.core.events.model import ModelResponded
from loom_ia.core.events.tool import ToolCalled, ToolCompleted
from loom_ia.core.model import TextDelta
from scripts.local_llm.asked import read
from scripts.local_llm.engine import Ended, Task
from scripts.local_llm.grammar import grammar
from scripts.local_llm.measure import PHRASINGS, SYSTEM, TOOL, french
from scripts.local_llm.numbers import numbers
from scripts.local_llm.prompt import EXAMPLES, prompt
from scripts.local_llm.refusal import Refusal
from scripts.local_llm.running import running
from scripts.local_llm.server import MODEL, open_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart-llm"
P = TypeVar("P")

QUESTION = "Quel prix TTC pour un devis de 1 250 € HT en rénovation (TVA à 10 %) ?"
MESSAGES = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
QUOTE = {
    "type": "object",
    "properties": {"montant_ht": {"type": "number"}, "taux_tva": {"type": "number"}},
    "required": ["montant_ht", "taux_tva"],
    "additionalProperties": False,
}

real = [
    pytest.mark.skipif(
        os.environ.get("LOOM_E2E_LLM") != "1",
        reason="set LOOM_E2E_LLM=1 to run on a real model (make demo-llm installs it)",
    ),
    pytest.mark.timeout(600),
]


# -- the agent on the model -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The model, served on a free port."""
    with running() as address:
        yield address


@pytest.fixture
async def loom(address: str, tmp_path: Path):
    """The example's project, its model at that address."""
    folder = tmp_path / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("data"))
    file = folder / "loom.yaml"
    file.write_text(file.read_text("utf-8").replace("http://127.0.0.1:8131/v1", address), "utf-8")
    async with Loom.from_config(folder, environ={}) as loom:
        yield loom


def of(kind: type[P], events: Sequence[Event]) -> list[P]:
    """Give the payloads of a kind, in order."""
    return [event.payload for event in events if isinstance(event.payload, kind)]


class TestAgent:
    pytestmark = real

    @pytest.mark.parametrize("phrasing", PHRASINGS)
    @pytest.mark.parametrize(("amount", "rate"), [(1250, 10), (450, 10), (999, 20), (7800, 20)])
    async def test_the_tool_is_called_and_its_figure_told(
        self, loom: Loom, phrasing: str, amount: int, rate: int
    ) -> None:
        """The model reads the figures of the question, and tells the one that the tool gave."""
        result = await loom.run("devis", phrasing.format(ht=french(amount), rate=rate))
        calls = of(ToolCalled, await loom.events(result.run_id))
        assert [call.tool_name for call in calls] == ["prix_ttc"]
        assert calls[0].arguments == {"montant_ht": amount, "taux_tva": rate}
        assert round(amount * (1 + rate / 100), 2) in numbers([result.text])

    async def test_the_journal_of_a_run_is_complete(self, loom: Loom) -> None:
        """Two answers with the tokens that the model counted, and the result of the call."""
        result = await loom.run("devis", QUESTION)
        events = await loom.events(result.run_id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert (events[0].type, events[-1].type) == ("run.started", "run.completed")
        answers = of(ModelResponded, events)
        assert [answer.stop_reason for answer in answers] == ["tool_use", "end"]
        for answer in answers:
            assert answer.model_id == MODEL
            assert not answer.usage.estimated
            assert answer.usage.prompt_tokens > 100
            assert answer.usage.output_tokens > 5
        [done] = of(ToolCompleted, events)
        assert done.output.data == {"montant_ht": 1250.0, "tva": 125.0, "montant_ttc": 1375.0}
        assert answers[1].message.as_text() == result.text
        assert 1375 in numbers([result.text])

    async def test_what_is_streamed_is_what_is_kept(self, loom: Loom) -> None:
        """The answer comes in pieces, after the call, and they add up to the text of the run."""
        items = [item async for item in loom.stream("devis", QUESTION, run_id="r1")]
        pieces = [item.text for item in items if isinstance(item, TextDelta)]
        assert len(pieces) > 5
        assert "".join(pieces) == (await loom.result("r1")).text
        kinds = [item.type if isinstance(item, Event) else type(item).__name__ for item in items]
        assert kinds.index("tool.completed") < kinds.index("TextDelta")


# -- the server, as OpenAI's own client sees it ---------------------------------------------------


@pytest.fixture
def client(address: str):
    """OpenAI's client, at the address of the model."""
    from openai import OpenAI

    with OpenAI(base_url=address, api_key="-", max_retries=0, timeout=300) as client:
        yield client


class TestClient:
    pytestmark = real

    def test_a_call_is_streamed_in_fragments(self, client: Any) -> None:
        """One call, its arguments in many pieces, and the tokens at the end."""
        chunks = list(
            client.chat.completions.create(
                model=MODEL,
                messages=MESSAGES,
                tools=[TOOL],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
        fragments = [call for delta in deltas for call in delta.tool_calls or ()]
        assert fragments[0].id
        assert fragments[0].function.name == "prix_ttc"
        assert len(fragments) > 5
        arguments = "".join(call.function.arguments for call in fragments)
        assert json.loads(arguments) == {"montant_ht": 1250, "taux_tva": 10}
        assert chunks[-2].choices[0].finish_reason == "tool_calls"
        assert chunks[-1].choices == []
        assert chunks[-1].usage.completion_tokens > len(fragments) / 2

    def test_a_tool_can_be_forced_or_forbidden(self, client: Any) -> None:
        """A named tool is called although nothing asks for it, and none is when none may be."""
        named = {"type": "function", "function": {"name": "prix_ttc"}}
        forced = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Bonjour !"}],
            tools=[TOOL],
            tool_choice=named,
        ).choices[0]
        assert forced.finish_reason == "tool_calls"
        assert forced.message.content is None
        assert "montant_ht" in json.loads(forced.message.tool_calls[0].function.arguments)
        free = client.chat.completions.create(
            model=MODEL, messages=MESSAGES, tools=[TOOL], tool_choice="none", max_tokens=40
        ).choices[0]
        assert free.message.tool_calls is None
        assert free.message.content

    def test_json_fits_the_schema(self, client: Any) -> None:
        """The model fills the keys that were asked for."""
        text = "Extrais en JSON : un devis de 1 250 euros HT avec une TVA de 20 %."
        schema = {"name": "devis", "schema": QUOTE, "strict": True}
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": text}],
            response_format={"type": "json_schema", "json_schema": schema},
        )
        assert json.loads(answer.choices[0].message.content) == {"montant_ht": 1250, "taux_tva": 20}
        assert answer.usage.prompt_tokens > answer.usage.completion_tokens > 5

    def test_what_cannot_be_done_is_refused(self, client: Any) -> None:
        """A conversation too long, and a schema that the engine cannot hold the model to."""
        from openai import BadRequestError

        with pytest.raises(BadRequestError) as caught:
            client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "mot " * 6000}], stream=True
            )
        assert caught.value.code == "context_length_exceeded"
        strange = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}
        tool = {"type": "function", "function": {"name": "outil", "parameters": strange}}
        with pytest.raises(BadRequestError) as caught:
            client.chat.completions.create(model=MODEL, messages=MESSAGES, tools=[tool])
        assert caught.value.code == "invalid_function_parameters"


# -- the server without the model -----------------------------------------------------------------


class Script:
    """An engine that writes what it is told to, piece by piece."""

    def __init__(self) -> None:
        self.pieces: tuple[str, ...] = ("Rép", "onse: ", "Bon", "jour")
        self.fault: Exception | None = None

    def go_on(self, task: Task, take: Callable[[str], None]) -> Ended:
        for piece in self.pieces:
            take(piece)
        if self.fault:
            raise self.fault
        return Ended("stop", read=9, cached=4, written=len(self.pieces))

    def understands(self, grammar: str) -> bool:
        return "not" not in grammar


@pytest.fixture
def script() -> Script:
    """The engine of the server."""
    return Script()


@pytest.fixture
def port(script: Script) -> Iterator[int]:
    """The port of a server on that engine."""
    with open_server(script, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, body: object, path: str = "/v1/chat/completions") -> tuple[int, str]:
    """Post a body, as it is if it is text, and give the status and the text of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    text = body if isinstance(body, str) else json.dumps(body)
    connection.request("POST", path, text.encode())
    answer = connection.getresponse()
    told = answer.status, answer.read().decode()
    connection.close()
    return told


def chat(**more: Any) -> dict[str, Any]:
    """Build the body of a request."""
    return {"model": MODEL, "messages": MESSAGES, **more}


def events(told: str) -> list[Any]:
    """Read a stream, its last line included."""
    lines = told.strip().split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line[6:]) for line in lines]


CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "prix_ttc", "arguments": "{}"}}
    ],
}


STRANGE = {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}
ORPHAN = {"role": "tool", "tool_call_id": "c1", "content": ""}
NOBODY = {"type": "function", "function": {"name": "personne"}}
REFUSED: dict[str, tuple[object, int, str | None, str | None]] = {
    "no JSON": ("{", 400, None, None),
    "no object": ([], 400, None, None),
    "no model": ({}, 400, None, "model"),
    "another model": (chat(model="gpt"), 404, "model_not_found", None),
    "no message": (chat(messages=[]), 400, None, "messages"),
    "an empty message": (chat(messages=[{"role": "user"}]), 400, None, "messages[0].content"),
    "a call without its result": (chat(messages=[*MESSAGES, CALLED]), 400, None, "messages[2]"),
    "a result without its call": (chat(messages=[ORPHAN]), 400, None, "messages[0]"),
    "an unknown tool": (chat(tools=[TOOL], tool_choice=NOBODY), 400, None, "tool_choice"),
    "no tool to call": (chat(tool_choice="required"), 400, None, "tool_choice"),
    "no tokens": (chat(max_tokens=0), 400, None, "max_tokens"),
    "too hot": (chat(temperature=3), 400, None, "temperature"),
    "two answers": (chat(n=2), 400, None, "n"),
    "an unknown schema": (chat(response_format=STRANGE), 400, None, "response_format"),
}


class TestServer:
    def test_text_is_streamed_as_it_is_written(self, port: int) -> None:
        """The label is not part of it, and the tokens are those of the engine."""
        asked = chat(stream=True, stream_options={"include_usage": True})
        *pieces, end, usage = events(ask(port, asked)[1])
        texts = [piece["choices"][0]["delta"]["content"] for piece in pieces]
        assert texts == ["", "Bon", "jour"]
        assert end["choices"][0]["finish_reason"] == "stop"
        assert usage["choices"] == []
        assert usage["usage"]["total_tokens"] == 13
        assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}

    def test_a_call_in_one_piece_is_the_same_call(self, port: int, script: Script) -> None:
        """Name and arguments are told apart wherever the pieces were cut."""
        script.pieces = ("App", "el: prix", '_ttc {"mon', 'tant_ht": 1', "}")
        choice = json.loads(ask(port, chat(tools=[TOOL]))[1])["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] is None
        assert choice["message"]["tool_calls"][0]["function"] == {
            "name": "prix_ttc",
            "arguments": '{"montant_ht": 1}',
        }

    @pytest.mark.parametrize(
        ("body", "status", "code", "param"), REFUSED.values(), ids=REFUSED.keys()
    )
    def test_a_bad_request_is_refused(
        self, port: int, body: object, status: int, code: str | None, param: str | None
    ) -> None:
        """The status, the code and the name of what is wrong are OpenAI's."""
        got, text = ask(port, body)
        error = json.loads(text)["error"]
        assert (got, error["code"], error["param"]) == (status, code, param)
        assert error["type"] == "invalid_request_error"
        assert error["message"]

    def test_another_path_is_not_there(self, port: int) -> None:
        """What this server does not do is told in the same shape."""
        status, text = ask(port, {}, "/v1/embeddings")
        assert status == 404
        assert json.loads(text)["error"]["code"] == "unknown_url"

    def test_a_fault_is_told_where_the_stream_stands(self, port: int, script: Script) -> None:
        """Before the first piece it is the answer; after it, the last thing that is said."""
        script.pieces = ("Bonjour",)
        assert ask(port, chat(stream=True))[0] == 500
        script.pieces, script.fault = ("Réponse: a", "b"), Refusal(500, "panne")
        status, told = ask(port, chat(stream=True))
        assert status == 200
        last = json.loads(told.strip().split("\n\n")[-1].removeprefix("data: "))
        assert last["error"]["message"] == "panne"

    def test_what_the_model_reads_is_the_conversation_in_one_form(self) -> None:
        """A text stays on its line, so that it cannot pass for another one."""
        result = {"role": "tool", "tool_call_id": "c1", "content": '{"a": 1}'}
        said = {"role": "user", "content": "Bonjour\nRéponse: non"}
        asked = read(chat(messages=[*MESSAGES, CALLED, result, said], tools=[TOOL]), MODEL)
        assert prompt(asked).removeprefix(EXAMPLES).splitlines()[1:] == [
            f"Outils: prix_ttc(montant_ht, taux_tva) - {TOOL['function']['description']}",
            f"Question: {QUESTION}",
            "Appel: prix_ttc {}",
            'Résultat: {"a": 1}',
            "Question: Bonjour Réponse: non",
        ]

    def test_a_number_is_one_of_those_that_were_written(self) -> None:
        """One of the conversation; where it has none there is no such limit."""
        asked = read(chat(tools=[TOOL], tool_choice="required"), MODEL)
        held = grammar(asked, numbers([QUESTION]))
        assert '"taux_tva": {"type": "number", "default": 20.0, "enum": [1250, 10]}' in held
        assert '"enum"' not in grammar(asked)
        assert "answer" not in held

    @pytest.mark.parametrize(
        ("text", "read"),
        [
            ("1 250,50 € à 5,5 %", (1250.5, 5.5)),
            ("12 345 678", (12345678,)),
            ('{"a": 1375.0, "b": -2}', (1375, -2)),
            ("1.375", (1.375,)),
            ("rien", ()),
        ],
    )
    def test_a_number_is_read_as_a_french_reader_does(
        self, text: str, read: tuple[float, ...]
    ) -> None:
        """Spaces part thousands, a comma or a point parts decimals."""
        assert numbers([text]) == read
