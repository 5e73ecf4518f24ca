"""What a configuration is checked for once each file is sound by itself: one file for each check.

Law. A check looks at the project and yields a problem for each fault; it neither stops at the first
nor speaks about a part that was refused already. To add one, write its file and name it below.
Some stand apart: those of tools import the user's modules, one only warns in the dev profile, the
hardened ones are errors in prod alone, and doubts are only told.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from loom_ia.config.checks.budgets import check_budgets
from loom_ia.config.checks.chains import check_chains, check_windows
from loom_ia.config.checks.contracts import check_contracts
from loom_ia.config.checks.cycles import check_cycles, check_cycles_in_python
from loom_ia.config.checks.doors import (
    check_doors,
    check_expired,
    check_open,
    check_secrets,
)
from loom_ia.config.checks.durability import check_durability
from loom_ia.config.checks.graphs import check_graphs, check_shapes
from loom_ia.config.checks.idempotency import check_idempotency
from loom_ia.config.checks.judges import check_correlated, check_judges, check_samples
from loom_ia.config.checks.models import check_cache_prices, check_keys, check_models
from loom_ia.config.checks.names import check_names
from loom_ia.config.checks.notices import (
    check_notice_addresses,
    check_notices,
    check_notices_of_tools,
)
from loom_ia.config.checks.policies import check_policies
from loom_ia.config.checks.prompts import check_prompts
from loom_ia.config.checks.references import check_references
from loom_ia.config.checks.roles import check_roles, check_tool_results
from loom_ia.config.checks.schemas import check_schemas
from loom_ia.config.checks.sources import check_overlaps, check_sources
from loom_ia.config.checks.state import check_state
from loom_ia.config.checks.storage import check_storage
from loom_ia.config.checks.subagents import check_subagents
from loom_ia.config.checks.tools import check_tools
from loom_ia.config.checks.triggers import check_triggers
from loom_ia.config.checks.used_models import check_used_models
from loom_ia.config.project import Project
from loom_ia.core.errors import Problem

Check: TypeAlias = Callable[[Project], Iterator[Problem]]

CHECKS: Final[tuple[Check, ...]] = (
    check_names,
    check_models,
    check_used_models,
    check_chains,
    check_prompts,
    check_schemas,
    check_state,
    check_contracts,
    check_judges,
    check_storage,
    check_tools,
    check_sources,
    check_roles,
    check_subagents,
    check_graphs,
    check_cycles,
    check_doors,
    check_triggers,
    check_notices,
)

CHECKS_OF_TOOLS: Final[tuple[Check, ...]] = (
    check_references,
    check_policies,
    check_idempotency,
    check_notices_of_tools,
    check_tool_results,
    check_cycles_in_python,
)

HARDENED: Final[tuple[Check, ...]] = (
    check_budgets,
    check_windows,
    check_keys,
    check_correlated,
    check_samples,
    check_cache_prices,
    check_notice_addresses,
)
"""What would better not be: told everywhere, and refused in prod."""

DOUBTS: Final[tuple[Check, ...]] = (check_shapes, check_overlaps, check_expired)
"""What probably was not meant: told everywhere, refused nowhere; only asked of a sound project."""

__all__ = [
    "CHECKS",
    "CHECKS_OF_TOOLS",
    "DOUBTS",
    "HARDENED",
    "Check",
    "check_durability",
    "check_open",
    "check_secrets",
]
