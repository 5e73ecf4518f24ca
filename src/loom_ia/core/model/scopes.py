"""What a key lets whoever holds it do."""

from typing import Final, Literal, TypeAlias

Scope: TypeAlias = Literal["run", "read", "read_content", "approve", "admin"]
SCOPES: Final[tuple[Scope, ...]] = ("run", "read", "read_content", "approve", "admin")
"""`run`: run and stop agents. `read`: agents, statuses, events and reports, without content.
`read_content`: content, too. `approve`: decide. `admin`: delete sessions, skip judges."""
