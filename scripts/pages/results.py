"""The page of the results: what the library returns and the command line writes as JSON."""

from loom_ia.core.views.report import UsageReport
from loom_ia.core.views.result import RunResult
from loom_ia.core.views.sessions import RunPage, SessionDeletion, SessionInfo
from loom_ia.core.views.trace import Trace
from scripts.pages.fields import described, models_below
from scripts.pages.markdown import code, page, table

_SHAPES = {
    RunResult: ("`run`, `resume`, `result`", "`loom run --json`, `resume`, `approve`, `reject`"),
    Trace: ("`trace`", "`loom inspect --json`"),
    UsageReport: ("`report`", "`loom report --json`"),
    RunPage: ("`runs`", "`loom runs --json`"),
    SessionInfo: ("`session`, `sessions`", "`loom sessions show --json`, `list --json`"),
    SessionDeletion: ("`delete_session`", ""),
}


def text() -> str:
    """Give the page."""
    inner = [model for model in models_below(_SHAPES) if model not in _SHAPES]
    return page(
        "Results",
        'What the library returns. `model_dump(mode="json")` of each is what the command line '
        "writes with `--json`. The shapes are frozen: a change is told in the changelog.",
        table(
            ("shape", "from Python (`Loom`)", "from the command line"),
            ((f"[{s.__name__}](#{s.__name__.lower()})", *where) for s, where in _SHAPES.items()),
        ),
        *(part for shape in _SHAPES for part in described(shape, "##")),
        "## Values",
        f"What these are made of. {code('usage')} counts tokens, costs are in dollars.",
        *(part for model in inner for part in described(model)),
    )
