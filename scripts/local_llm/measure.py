"""How often the model is right, and how fast: through the API, with a tool that is not run."""

import json
import re
import statistics
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from scripts.local_llm.numbers import numbers
from scripts.local_llm.server import MODEL

PRICES: Final = (
    (1250, 10),
    (100, 20),
    (450, 10),
    (999, 20),
    (2500, 10),
    (7800, 20),
    (80, 5.5),
    (64.5, 20),
    (320, 5.5),
    (15, 2.1),
)
PHRASINGS: Final = (
    "Quel prix TTC pour un devis de {ht} € HT en rénovation (TVA à {rate} %) ?",
    "Quel est le prix TTC de {ht} euros HT avec une TVA de {rate} % ?",
    "Mon client doit payer combien TTC ? Le montant HT est {ht} euros, le taux de TVA {rate} %.",
)
SYSTEM: Final = (
    "Tu es l'assistant d'un artisan. Tu réponds en français, en une ou deux phrases.\n\nPour tout "
    "calcul de prix, appelle l'outil `prix_ttc` au lieu de calculer toi-même, et reprends les "
    "montants qu'il renvoie.\n"
)
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "prix_ttc",
        "description": "Calcule la TVA et le montant TTC d'un devis. Le taux est en pourcentage.",
        "parameters": {
            "type": "object",
            "properties": {
                "montant_ht": {"type": "number"},
                "taux_tva": {"type": "number", "default": 20.0},
            },
            "required": ["montant_ht"],
            "additionalProperties": False,
        },
    },
}


@dataclass(slots=True)
class Score:
    """What was right of `asked` questions, and how long each pair of answers took."""

    asked: int = 0
    called: int = 0
    exact: int = 0
    told: int = 0
    seconds: list[float] = field(default_factory=list[float])
    wrong: list[str] = field(default_factory=list[str])


def measure(address: str) -> None:
    """Ask every price in every phrasing of the server at `address`, and print what came."""
    for phrasing in PHRASINGS:
        score = Score()
        for amount, rate in PRICES:
            _ask(address, phrasing, amount, rate, score)
        print(
            f"{phrasing}\n  called {score.called}/{score.asked}, arguments {score.exact}/"
            f"{score.asked}, figure {score.told}/{score.asked}, "
            f"{statistics.median(score.seconds):.1f} s a question",
            *(f"\n  ✘ {wrong}" for wrong in score.wrong),
            flush=True,
        )
    print("a stream: {:.0f} tokens/s, the first after {:.2f} s".format(*_speed(address)))


def french(value: float) -> str:
    """Write a number as a French reader does."""
    text = f"{value:,.2f}" if value % 1 else f"{value:,.0f}"
    return text.replace(",", " ").replace(".", ",")


def _ask(address: str, phrasing: str, amount: float, rate: float, score: Score) -> None:
    """Ask one question: a call, then, with the result of the right one, the answer."""
    text = phrasing.format(ht=french(amount), rate=f"{rate:g}".replace(".", ","))
    messages: list[Any] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": text},
    ]
    began = time.perf_counter()
    first = _message(address, messages)
    arguments = {"montant_ht": amount, "taux_tva": rate}
    calls = first.get("tool_calls") or []
    given = [json.loads(call["function"]["arguments"]) for call in calls]
    tax = round(amount * rate / 100, 2)
    total = round(amount + tax, 2)
    result = {"montant_ht": float(amount), "tva": tax, "montant_ttc": total}
    function = {"name": "prix_ttc", "arguments": json.dumps(arguments)}
    call = {"id": "call_1", "type": "function", "function": function}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(result)},
    ]
    answer = _message(address, messages).get("content") or ""
    score.seconds.append(time.perf_counter() - began)
    score.asked += 1
    score.called += bool(calls)
    score.exact += given == [arguments]
    score.told += total in numbers([answer])
    if given != [arguments]:
        score.wrong.append(f"{amount:g} at {rate:g} %: {given or first.get('content')}")
    if total not in numbers([answer]):
        score.wrong.append(f"{total:.2f} wanted: {answer}")


def _message(address: str, messages: list[Any]) -> dict[str, Any]:
    body = {"model": MODEL, "messages": messages, "tools": [TOOL], "max_tokens": 120}
    with _post(address, body) as answer:
        return json.load(answer)["choices"][0]["message"]


def _speed(address: str) -> tuple[float, float]:
    """Give the tokens a second of a stream after its first piece, and when that one came."""
    message = {"role": "user", "content": "Explique ce qu'est la TVA."}
    body = {"model": MODEL, "messages": [message], "max_tokens": 80, "stream": True}
    began = time.perf_counter()
    with _post(address, body) as answer:
        times = [time.perf_counter() - began for _ in _texts(answer)]
    return (len(times) - 1) / (times[-1] - times[0]), times[0]


def _texts(lines: Any) -> Iterator[str]:
    for line in lines:
        if re.match(rb"data: \{", line):
            text = json.loads(line[6:])["choices"][0]["delta"].get("content")
            if text:
                yield text


def _post(address: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{address}/chat/completions", json.dumps(body).encode(), headers
    )
    return urllib.request.urlopen(request, timeout=300)
