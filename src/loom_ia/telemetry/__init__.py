"""What is shown of the inside: technical logs, apart from the journal."""

from loom_ia.telemetry.logs import configure_logging

__all__ = ["configure_logging"]
