"""Answers that are success: JSON written once, straight from the values."""

import json
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import BaseModel

from loom_ia.core.ids import RunId
from loom_ia.core.json import JsonObject

_JSON = "application/json"


def said(value: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with one value."""
    return Response(value.model_dump_json(), status, headers, _JSON)


def located(request: Request, run_id: RunId) -> dict[str, str]:
    """Say where the run that was begun can be read."""
    root = f"{request.scope.get('root_path', '')}{request.app.state.doorkeeper.prefix}"
    return {"Location": f"{root}/runs/{quote(run_id, safe='')}"}


def listed(values: Iterable[BaseModel]) -> Response:
    """Answer with several values."""
    return Response(f"[{','.join(value.model_dump_json() for value in values)}]", 200, None, _JSON)


def documents(found: Sequence[JsonObject]) -> Response:
    """Answer with documents in JSON."""
    return Response(json.dumps(found, ensure_ascii=False), 200, None, _JSON)


def lines(found: Iterable[JsonObject]) -> Response:
    """Answer with documents in JSON, one on each line."""
    text = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in found)
    return Response(text, 200, None, "application/x-ndjson")
