"""Names that no agent can take."""

from typing import Final

MCP_SERVICES: Final = ("run_status", "run_report", "cancel")
"""The tools about runs, which the MCP server offers beside the agents."""
