"""The common project on models of a provider, which the loopback server plays."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from loom_ia.access import Loom
from loom_ia.core.events import Event, Payload
from tests.acceptance.project import Project
from tests.providers.server import Called, Provider, Says, Tokens

Api: TypeAlias = Literal["anthropic", "chat", "responses"]

APIS: Sequence[Api] = ("anthropic", "chat", "responses")
KEY = "sk-not-a-real-key"
VARIABLE = "PROVIDER_KEY"
CALL = Says(
    "Je calcule.",
    calls=[Called("prix_ttc", {"montant_ht": 1250, "taux_tva": 10})],
    usage=Tokens(100, 20),
)
ANSWER = Says("Votre client paiera 1 375 € TTC.", usage=Tokens(150, 10))
NOW: Mapping[str, Any] = {"initial_delay": 0}


def entry(api: Api, provider: Provider, model_id: str = "M", **more: Any) -> dict[str, Any]:
    """Write an entry of `models`; its retries do not wait unless told otherwise."""
    sdk = "anthropic" if api == "anthropic" else "openai"
    return {
        "id": model_id,
        "sdk": sdk,
        **({} if api == "anthropic" else {"api": api}),
        "base_url": provider.url if api == "anthropic" else f"{provider.url}/v1",
        "model": f"{model_id.lower()}-1",
        "api_key_env": VARIABLE,
        "retry": dict(NOW),
        **more,
    }


def provided(project: Project, *models: dict[str, Any], **agent: Any) -> Project:
    """Put models of a provider in the project: the first leads, the others take over."""
    first, *others = (model["id"] for model in models)
    main = {"model": first, "fallbacks": others, "system_file": "devis.md"}
    project.root = {**project.root, "models": list(models)}
    project.agent = {"main": main, **agent}
    return project.save()


def loom_of(project: Project, **more: Any) -> Loom:
    """Open the library on the project, with the key of the provider."""
    return project.loom(environ={VARIABLE: KEY}, **more)


def of(items: Sequence[object], kind: type[Payload]) -> list[Any]:
    """Give the payloads of one type among events, or among the items of a stream."""
    events = (item for item in items if isinstance(item, Event))
    return [event.payload for event in events if isinstance(event.payload, kind)]
