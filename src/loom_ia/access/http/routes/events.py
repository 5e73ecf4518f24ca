"""What happens in a run, as it does: server-sent events."""

from fastapi import APIRouter

router = APIRouter(tags=["runs"])
