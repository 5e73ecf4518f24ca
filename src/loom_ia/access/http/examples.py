"""One example for the answer of each route, shown in the document."""

from types import MappingProxyType
from typing import Any, Final

_RUN: Final = "01a22f8e-e79d-7000-9d8a-1383ea016d0b"
_AT: Final = "2026-12-01T08:00:00.000000Z"
_USAGE: Final = {"input_tokens": 651, "output_tokens": 85}
_RESULT: Final[dict[str, Any]] = {
    "run_id": _RUN,
    "session_id": "client-42",
    "agent": "devis",
    "status": "completed",
    "text": "1 375 € TTC",
    "iterations": 2,
    "usage": _USAGE,
    "cost_usd": 0.001076,
}
_LISTED: Final[dict[str, Any]] = {
    "run_id": _RUN,
    "session_id": "client-42",
    "agent": "devis",
    "status": "completed",
    "started_at": _AT,
    "updated_at": _AT,
    "iterations": 2,
    "usage": _USAGE,
    "cost_usd": 0.001076,
}
_SESSION: Final[dict[str, Any]] = {
    "session_id": "client-42",
    "last_seq": 14,
    "updated_at": _AT,
    "runs": [_LISTED],
}
_DECIDED: Final[dict[str, Any]] = {"run_id": _RUN, "calls": ["call_1"]}
_FILE: Final[dict[str, Any]] = {
    "uri": f"artifact://default/client-42/{'0' * 64}.png",
    "file": f"{'0' * 64}.png",
    "name": "chantier.png",
    "media_type": "image/png",
    "size": 5120,
    "origin": "attachment",
    "run_id": _RUN,
    "agent": "devis",
    "stored_at": _AT,
}
_EVENT: Final[dict[str, Any]] = {
    "event_id": "01a22f8e-e7a8-7000-add7-784b26a74969",
    "seq": 4,
    "ts": _AT,
    "schema_version": 1,
    "tenant_id": "default",
    "session_id": "client-42",
    "run_id": _RUN,
    "root_run_id": _RUN,
    "span_id": "01a22f8e-e7a8-7000-add7-784b26a74969",
    "parent_span_id": _RUN,
    "type": "tool.called",
    "category": "tool",
    "status": "ok",
    "agent": "devis",
    "role": None,
    "facets": {"tool_name": "prix_ttc"},
    "payload": {"call_id": "call_1", "tool_name": "prix_ttc", "redacted": ["arguments"]},
}
_SPENT: Final[dict[str, Any]] = {"calls": 2, "usage": _USAGE, "cost_usd": 0.001076}

ANSWERS: Final = MappingProxyType[str, Any](
    {
        "listAgents": [{"name": "devis", "description": "Chiffre un devis."}],
        "alive": {"status": "ok"},
        "ready": {"status": "ready"},
        "listGraphs": [{"name": "visite"}],
        "runAgent": _RESULT,
        "runGraph": {**_RESULT, "agent": "visite", "text": "", "data": {"jour": "jeudi"}},
        "listRuns": {"runs": [_LISTED], "scanned": 1, "truncated": False},
        "readRun": {**_RESULT, "text": "", "redacted": True},
        "approve": _DECIDED,
        "reject": _DECIDED,
        "cancelRun": {"run_id": _RUN, "cancelled": True},
        "callTrigger": {
            "trigger": "facture",
            "run_id": "hook-0123456789abcdef",
            "session_id": "hook-0123456789abcdef",
            "status": "ready_for_model",
            "repeated": False,
        },
        "listSessions": [_SESSION],
        "readSession": _SESSION,
        "listSessionFiles": [_FILE],
        "reportSession": {
            "session_id": "client-42",
            "total": _SPENT,
            "runs": [
                {"run_id": _RUN, "session_id": "client-42", "agent": "devis", "depth": 0, **_SPENT}
            ],
            "sessions": [{"session_id": "client-42", **_SPENT}],
            "roles": [{"name": "main", **_SPENT}],
            "models": [{"name": "HAIKU", "model_id": "claude-haiku-5-5", **_SPENT}],
        },
        "deleteSession": {"session_id": "client-42", "events": 14, "artifacts": 1, "keys": 0},
        "searchEvents": [_EVENT],
        "readTrace": {
            "run_id": _RUN,
            "session_id": "client-42",
            "agent": "devis",
            "status": "completed",
            "started_at": _AT,
            "duration_ms": 1840,
            "iterations": 2,
            "usage": _USAGE,
            "cost_usd": 0.001076,
            "request": "Quel prix TTC pour 1 250 € HT à 10 % ?",
        },
    }
)
"""By the id of the operation."""

ACCEPTED: Final = MappingProxyType[str, Any](
    {"run_id": _RUN, "session_id": "client-42", "status": "ready_for_model"}
)
"""What a run in the background is answered with."""
