"""The routes, by what they are about."""

from typing import Final

from fastapi import APIRouter

from loom_ia.access.http import paths as paths  # before any route is made
from loom_ia.access.http.routes import (
    agents,
    decisions,
    events,
    graphs,
    hooks,
    journal,
    runs,
    sessions,
)

ROUTERS: Final[tuple[APIRouter, ...]] = (
    agents.router,
    graphs.router,
    hooks.router,
    events.router,
    decisions.router,
    runs.router,
    sessions.router,
    journal.router,
)
