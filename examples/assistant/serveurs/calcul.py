"""Un serveur MCP qui compte, en stdio."""

from decimal import Decimal

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

serveur = MCPServer("calcul")
SANS_EFFET = ToolAnnotations(read_only_hint=True)


@serveur.tool(annotations=SANS_EFFET)
def additionner(a: float, b: float) -> dict[str, float]:
    """Additionne deux nombres."""
    return {"somme": float(Decimal(str(a)) + Decimal(str(b)))}


@serveur.tool(annotations=SANS_EFFET)
def multiplier(a: float, b: float) -> dict[str, float]:
    """Multiplie deux nombres."""
    return {"produit": float(Decimal(str(a)) * Decimal(str(b)))}


if __name__ == "__main__":
    serveur.run("stdio")
