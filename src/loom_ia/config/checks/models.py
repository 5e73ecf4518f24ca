"""What the entry of a model says fits together."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from loom_ia.config.places import Source
from loom_ia.config.project import Project
from loom_ia.core.errors import Problem
from loom_ia.core.model.models import ModelSpec


def check_models(project: Project) -> Iterator[Problem]:
    """Refuse settings of a model that mean nothing together."""
    if "models" in project.broken:
        return
    for position, model in enumerate(project.root.models):
        source = project.source.inside("models", position)
        yield from _of_its_address(source, model)
        yield from _of_its_sdk(source, model)
        yield from _of_its_capabilities(source, model)


def _of_its_address(source: Source, model: ModelSpec) -> Iterator[Problem]:
    if model.base_url is None:
        return
    try:
        address = urlsplit(model.base_url)
        sound = bool(address.hostname) and address.port != 0 and model.base_url.isprintable()
    except ValueError:  # a port that is none, an address of six parts that is none
        sound = False
    if not sound:
        template = "this is no address that can be called"
        yield source.problem(("base_url",), template)


def _of_its_sdk(source: Source, model: ModelSpec) -> Iterator[Problem]:
    if model.api is not None and model.sdk != "openai":
        template = "api is for sdk: openai, not {sdk} (remove it)"
        yield source.problem(("api",), template, sdk=model.sdk)
    if model.cache is not None and model.sdk != "anthropic":
        template = "cache is for sdk: anthropic, not {sdk} (remove it: others keep what they like)"
        yield source.problem(("cache",), template, sdk=model.sdk)


def _of_its_capabilities(source: Source, model: ModelSpec) -> Iterator[Problem]:
    can, limit = model.capabilities, model.max_tokens
    if can.vision and "base64" not in can.image_input:
        template = "vision needs base64: images are given in no other way"
        yield source.problem(("capabilities", "image_input"), template)
    if can.context_window is not None and limit is not None and limit >= can.context_window:
        template = "a window of {window} tokens leaves no room for a prompt: max_tokens is {limit}"
        path = ("capabilities", "context_window")
        yield source.problem(path, template, window=can.context_window, limit=limit)


def check_keys(project: Project) -> Iterator[Problem]:
    """Tell of a provider's official address that is called without a key."""
    for position, model in enumerate(project.root.models):
        if model.sdk == "fake" or model.base_url is not None or model.api_key_env is not None:
            continue
        template = "the official address of {sdk} asks for a key (add api_key_env)"
        yield project.source.problem(("models", position, "sdk"), template, sdk=model.sdk)


def check_cache_prices(project: Project) -> Iterator[Problem]:
    """Tell of a cache kept an hour that is priced as one of five minutes."""
    for position, model in enumerate(project.root.models):
        cache, pricing = model.cache, model.pricing
        if cache is None or cache.ttl == "5m" or pricing is None or not pricing.cache_write:
            continue
        if pricing.cache_write_1h is None:
            path = ("models", position, "pricing")
            template = "ttl: 1h costs more than cache_write says (add cache_write_1h)"
            yield project.source.problem(path, template)
