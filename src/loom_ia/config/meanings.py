"""What the keys of a model mean, in a sentence for the person who writes the configuration.

Law. A class of the configuration says it in the `description` of its fields. The classes of models
are of the core, which knows nothing of who writes them: their words stand here. A field that has a
description of its own needs no line.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MODEL_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "models[].id": "The name inside the configuration.",
        "models[].sdk": "Which code calls it. `fake` plays a script: no key, no network.",
        "models[].model": "The provider's name of the model; any word for `fake`.",
        "models[].max_tokens": "The longest answer, in tokens.",
        "models[].params": "Given to the model as it is; for `fake`, its `script` and `delay`.",
        "models[].pricing": "What it costs. Without it, costs count as 0.",
        "models[].pricing.input": "Dollars per million tokens read.",
        "models[].pricing.output": "Dollars per million tokens written.",
        "models[].pricing.cache_read": "Dollars per million tokens read from the cache.",
        "models[].pricing.cache_write": "Dollars per million tokens written to the cache.",
    }
)
"""By path, as the reference page writes it: `models[].pricing.input`."""
