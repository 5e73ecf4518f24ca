from datetime import date, timedelta

from loom_ia.tools import tool

AUJOURDHUI = date(2026, 9, 21)  # figé, pour que l'exemple dise toujours la même chose


@tool
def dans_tant_de_jours(jours: int) -> dict[str, object]:
    """Donne la date qu'il sera dans tant de jours."""
    return {"jours": jours, "date": (AUJOURDHUI + timedelta(days=jours)).isoformat()}
