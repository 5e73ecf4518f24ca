"""What a person or a program reads of runs: pure folds of the journal."""

from loom_ia.core.views.result import PendingApproval, RunResult, run_result

__all__ = ["PendingApproval", "RunResult", "run_result"]
