"""Un serveur MCP qui donne l'heure, en stdio.

MAINTENANT fige l'heure, pour que l'exemple dise toujours la même chose.
"""

import os
from datetime import datetime

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

serveur = MCPServer("heure")


@serveur.tool(annotations=ToolAnnotations(read_only_hint=True))
def maintenant() -> dict[str, str]:
    """Donne la date et l'heure."""
    fige = os.environ.get("MAINTENANT")
    instant = datetime.fromisoformat(fige) if fige else datetime.now().astimezone()
    return {"date": f"{instant:%Y-%m-%d}", "heure": f"{instant:%H:%M}"}


if __name__ == "__main__":
    serveur.run("stdio")
