"""Keys, triggers and targets of notices are checked when they are loaded."""
# ruff: noqa: E501 (an exact message reads best on one line)

import pytest

from loom_ia.core.errors import ConfigError
from tests.config.projects import ROOT, Folder

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def _with(folder: Folder, text: str) -> None:
    folder.write("loom.yaml", ROOT + text)


def test_sound_doors_are_loaded(folder: Folder) -> None:
    """What the public page shows is accepted, with instants, scopes and templates as they are."""
    _with(
        folder,
        f"""\
security:
  api_keys:
    - id: app-dupont
      hash: {A}
      scopes: [run, read, read_content, approve]
      agents: [devis]
      rate_limit: {{per_minute: 60}}
      expires: 2999-01-08T00:00:00Z
triggers:
  - name: devis-signe
    agent: devis
    message: "Le devis {{{{ payload.devis.numero }}}} ({{{{ trigger }}}}, {{{{ delivery }}}})"
    session: "devis-{{{{ payload.devis.numero }}}}"
    delivery_header: X-Delivery-Id
""",
    )
    loaded = folder.load()
    (key,) = loaded.config.security.api_keys
    assert key.expires is not None
    assert key.expires.isoformat() == "2999-01-08T00:00:00+00:00"
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"security: {{api_keys: [{{id: a, hash: '{A}'}},\n {{id: a, hash: '{B}'}}]}}\n",
            "loom.yaml:7: security.api_keys[a].id — a is already defined at loom.yaml:6",
        ),
        (
            f"security: {{api_keys: [{{id: a, hash: '{A}'}},\n {{id: b, hash: '{A}'}}]}}\n",
            (
                "loom.yaml:7: security.api_keys[b].hash — this is also the hash of a: each key has its "
                "own"
            ),
        ),
        (
            f"security: {{api_keys: [{{id: a, hash: '{A}', tenant: dupont}}]}}\n",
            (
                "loom.yaml:6: security.api_keys[a].tenant — clients are not available in this version "
                "(remove tenant)"
            ),
        ),
        (
            f"security: {{api_keys: [{{id: a, hash: '{A}', agents: [autre]}}]}}\n",
            "loom.yaml:6: security.api_keys[a].agents[0] — there is no agent autre (agents: devis)",
        ),
        (
            f"security: {{api_keys: [{{id: a, hash: '{A}', expires: 2027-01-08}}]}}\n",
            (
                "loom.yaml:6: security.api_keys[a].expires — an instant needs its time zone: write "
                "2027-01-08T00:00:00Z"
            ),
        ),
        (
            "server: {mcp: {http: true}}\n",
            (
                "loom.yaml:6: server.mcp.http — MCP over HTTP needs an API key, and none is declared "
                "(make one with `loom keys create`, and paste what it prints)"
            ),
        ),
        (
            "triggers:\n  - {name: t, agent: autre, message: m}\n",
            "loom.yaml:7: triggers[t].agent — there is no agent autre (agents: devis)",
        ),
        (
            (
                "triggers:\n  - {name: t, agent: devis, message: m}\n"
                "  - {name: t, agent: devis, message: m}\n"
            ),
            "loom.yaml:8: triggers[t].name — t is already defined at loom.yaml:7",
        ),
        (
            (
                "triggers:\n  - name: t\n    agent: devis\n    message: |\n      Un\n      "
                "{{ body.id }}\n"
            ),
            (
                "loom.yaml:11: triggers[t].message — unknown variable body.id (a trigger knows "
                "payload, trigger, delivery; write \\{{ for a literal {{)"
            ),
        ),
        (
            "triggers:\n  - {name: t, agent: devis, message: m, session: 's-{{ delivery.id }}'}\n",
            (
                "loom.yaml:7: triggers[t].session — delivery is a text, and delivery.id asks for a "
                "part of it (write {{ delivery }})"
            ),
        ),
        (
            "triggers:\n  - {name: t, agent: devis, message: 'a {{ payload.x'}\n",
            (
                "loom.yaml:7: triggers[t].message — column 3: {{ is not closed on its line (write \\{{ "
                "for a literal one)"
            ),
        ),
        (
            "notices: {targets: [{name: n, url: 'https://x.test', command: [mail]}]}\n",
            (
                "loom.yaml:6: notices.targets[n] — a target has either url or command (write one of "
                "them)"
            ),
        ),
        (
            "notices: {targets: [{name: n}]}\n",
            (
                "loom.yaml:6: notices.targets[n] — a target has either url or command (write one of "
                "them)"
            ),
        ),
        (
            "notices: {targets: [{name: n, command: [a], agents: [autre]}]}\n",
            "loom.yaml:6: notices.targets[n].agents[0] — there is no agent autre (agents: devis)",
        ),
        (
            "notices: {targets: [{name: n, command: [a]},\n {name: n, command: [a]}]}\n",
            "loom.yaml:7: notices.targets[n].name — n is already defined at loom.yaml:6",
        ),
    ],
)
def test_a_door_that_cannot_be_is_refused(folder: Folder, text: str, problem: str) -> None:
    """Each fault has its place and its remedy, and is the only one that is told."""
    _with(folder, text)
    assert folder.problems() == [problem]


def test_a_hash_that_is_none_is_not_shown_back(folder: Folder) -> None:
    """Whoever pasted the key where the hash goes does not find it in a message."""
    _with(folder, "security: {api_keys: [{id: a, hash: lk_secret-of-mine}]}\n")
    (problem,) = folder.problems()
    assert "lk_secret" not in problem
    assert problem.startswith("loom.yaml:6: security.api_keys[a].hash — must be sha256:")


def test_an_expired_key_is_told_and_loads(folder: Folder) -> None:
    """It is a doubt: nothing is refused at load, in any profile."""
    _with(
        folder,
        f"security: {{api_keys: [{{id: a, hash: '{A}', expires: '2020-01-01T00:00:00Z'}}]}}\n",
    )
    for profile in (None, "dev", "prod"):
        (warning,) = folder.load(profile=profile).warnings
        assert str(warning).startswith("loom.yaml:6: security.api_keys[a].expires — the key a has")


def test_b11_serving_without_a_key_is_refused_in_prod_alone(folder: Folder) -> None:
    """Loading says nothing of it; serving warns, or refuses in prod."""
    for profile in (None, "dev"):
        loaded = folder.load(profile=profile)
        assert loaded.warnings == ()
        (warning,) = loaded.check_serving()
        assert "without an API key" in str(warning)
    loaded = folder.load(profile="prod")
    with pytest.raises(ConfigError, match=r"security\.api_keys — without an API key"):
        loaded.check_serving()
    assert loaded.check_serving(is_keyed=True) == ()
    _with(folder, f"security: {{api_keys: [{{id: a, hash: '{A}'}}]}}\n")
    assert folder.load(profile="prod").check_serving() == ()


def test_serving_needs_the_secrets_of_signed_triggers(folder: Folder) -> None:
    """A door whose senders sign is not opened without the secret; its value is never shown."""
    _with(folder, "triggers:\n  - {name: t, agent: devis, message: m, secret_env: HOOK_SECRET}\n")
    with pytest.raises(ConfigError, match="the variable HOOK_SECRET is not defined, or empty"):
        folder.load().check_serving(is_keyed=True)
    assert folder.load(environ={"HOOK_SECRET": "s"}).check_serving(is_keyed=True) == ()
