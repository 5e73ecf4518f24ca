"""What code decides at the points where it is asked: hooks of a graph answer with these."""

from loom_ia.core.model.decisions import CONTINUE, Continue, Decision, Deny, Fail, Pause, Stop

__all__ = ["CONTINUE", "Continue", "Decision", "Deny", "Fail", "Pause", "Stop"]
