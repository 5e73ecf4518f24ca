"""What the tests of roles and of agents below share."""

from pathlib import Path

import pytest

from tests.roles.studio import Studio, call, calling

WRITE = {
    "name": "rediger",
    "description": "Rédige l'e-mail.",
    "model": "PLUME",
    "system": "Tu rédiges.",
    "input_schema": {"type": "object", "properties": {"ton": {"type": "string"}}},
    "context": ["user_input", {"tool_results": ["prix_ttc"]}],
}
"""The role of most tests: it writes with the words of the user and a price."""


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    """An agent that computes a price and has a role write about it."""
    monkeypatch.chdir(tmp_path)
    price = calling(call("prix_ttc", montant_ht=1000))
    return Studio(
        tmp_path,
        scripts={
            "CHEF": [price, calling(call("rediger", ton="bref")), {"text": "C'est fait."}],
            "PLUME": [{"text": "Bonjour, 1 200 €."}],
        },
        agents={"devis": {"tools": [{"python": t} for t in TOOL_NAMES], "roles": [dict(WRITE)]}},
        models={"PLUME": {"pricing": {"input": 1000.0, "output": 1000.0}}},
    )


TOOL_NAMES = ("prix_ttc", "lire", "long_texte", "casser", "rien", "envoyer")
