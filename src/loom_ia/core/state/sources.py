"""What a run was told of its sources of tools, so that only what changes is told again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class KnownSources:
    """The digest of what each source gave last, empty for one that could not be reached.

    `withheld` has the reason for which each tool was not offered, by its source and its own name.
    """

    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    withheld: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def opened(self, source: str, digest: str) -> "KnownSources":
        """Note what a source gives."""
        return KnownSources({**self.digests, source: digest}, self.withheld)

    def lost(self, source: str) -> "KnownSources":
        """Note that a source cannot be reached."""
        return self.opened(source, "")

    def kept_back(self, source: str, tool: str, reason: str) -> "KnownSources":
        """Note why a tool is not offered."""
        return KnownSources(self.digests, {**self.withheld, (source, tool): reason})


NO_SOURCES: Final = KnownSources()
"""A run that was told nothing."""
