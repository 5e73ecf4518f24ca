"""From the keys that an agent declares to the rules that the engine applies."""

from types import MappingProxyType

from loom_ia.agents import AgentSpec, StateKeySpec
from loom_ia.config.root import StateLimits
from loom_ia.core.model.session_state import NO_STATE, StateKey, StateRules, StateSource


def state_rules(agent: AgentSpec, limits: StateLimits) -> StateRules:
    """Give the rules of the keys of an agent."""
    if not agent.state:
        return NO_STATE
    return StateRules(
        MappingProxyType({name: _key(key) for name, key in agent.state.items()}),
        limits.max_value_bytes,
        limits.max_total_bytes,
        shown="session_state" in agent.main.context,
    )


def _key(key: StateKeySpec) -> StateKey:
    sources = tuple(
        StateSource(source.tool, source.path, source.value, source.on_missing)
        for source in key.sources
    )
    return StateKey(key.description, key.json_schema, sources, key.required, key.default)
