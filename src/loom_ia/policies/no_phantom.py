"""No answer may claim an action that was not done: `loom.no_phantom_action`.

What an action is called stands in the params, beside the tools that do it:

    params:
      actions:
        - {action: send, tools: [envoyer_email]}
        - {action: call, tools: [appeler], participles: [appelé], phrases: [client prévenu]}
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, cast

from loom_ia.core.errors import InvalidDecision
from loom_ia.core.json import JsonValue, storable_text
from loom_ia.core.model.decisions import CONTINUE, Decision, Retry
from loom_ia.core.ports.policies import OnOutput, PolicyContext
from loom_ia.core.prompts import prompt_text
from loom_ia.policies.function import policy
from loom_ia.policies.phantom import DEFAULTS, Action, Verb, phantom_claims
from loom_ia.policies.phantom.lexicon import inflected
from loom_ia.policies.phantom.tokens import fold

_MOST: Final = 50
_SHOWN: Final = 5
_KEYS: Final = frozenset({"action", "tools", "participles", "phrases"})


@policy(points=["on_output"], decisions=["retry"], name="no_phantom_action")
def no_phantom_action(subject: OnOutput, context: PolicyContext) -> Decision:
    """Have an answer made again that claims an action which no effect of the session shows."""
    actions = read(context.params)
    found = phantom_claims(subject.text, actions, context.effects)
    if not found:
        return CONTINUE
    shown = ", ".join(f"« {claim.text} » ({claim.action})" for claim in islice(found, _SHOWN))
    return Retry(storable_text(prompt_text(context.language, "phantom", claims=shown)))


def read(params: Mapping[str, JsonValue]) -> tuple[Action, ...]:
    """Read the declared actions. Raises `InvalidDecision` for the first that cannot be."""
    unknown = sorted(params.keys() - {"actions"})
    if unknown:
        raise InvalidDecision("there is no {key} (known: actions)", key=unknown[0])
    given = params.get("actions")
    if not isinstance(given, list) or not given or len(given) > _MOST:
        raise InvalidDecision("actions is a list of 1 to {most} actions", most=_MOST)
    return tuple(_action(item, position) for position, item in enumerate(given))


def _action(given: JsonValue, position: int) -> Action:
    if not isinstance(given, dict):
        raise InvalidDecision("actions[{position}] is not a mapping", position=position)
    for key in sorted(given.keys() - _KEYS):
        known = ", ".join(sorted(_KEYS))
        template = "actions[{position}] has {key} (known: {known})"
        raise InvalidDecision(template, position=position, key=key, known=known)
    name = given.get("action")
    if not isinstance(name, str) or not name:
        raise InvalidDecision("actions[{position}].action is a name", position=position)
    tools = _texts(given, "tools", position)
    own = _texts(given, "participles", position)
    phrases = _texts(given, "phrases", position)
    if not tools:
        template = "actions[{position}] names no tool that does it (tools)"
        raise InvalidDecision(template, position=position)
    verb = DEFAULTS.get(name, Verb())
    if own:
        words = [fold(word) for word in own]
        forms = frozenset(form for word in words for form in inflected(word))
        verb = Verb(verb.french | forms, verb.english | set(words), verb.infinitives, verb.nouns)
    elif name not in DEFAULTS and not phrases:
        template = (
            "actions[{position}]: {name} is no known verb ({known}): give participles or phrases"
        )
        known = ", ".join(DEFAULTS)
        raise InvalidDecision(template, position=position, name=name, known=known)
    return Action(name, tools, verb, phrases)


def _texts(given: Mapping[str, JsonValue], key: str, position: int) -> tuple[str, ...]:
    texts = given.get(key, [])
    are_texts = isinstance(texts, list) and all(isinstance(t, str) and t for t in texts)
    if not are_texts or len(cast("Sequence[str]", texts)) > _MOST:
        raise InvalidDecision(
            "actions[{position}].{key} is a list of texts, {most} at most",
            position=position,
            key=key,
            most=_MOST,
        )
    return tuple(cast("Sequence[str]", texts))


def faults_in(params: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Tell what is wrong with the params of the policy, before any run."""
    try:
        read(params)
    except InvalidDecision as error:
        return (str(error),)
    return ()
