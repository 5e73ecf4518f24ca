"""The agents and graphs of an instance, as tools of a server of the Model Context Protocol (MCP).

Law. A client of this door, and the model behind it, may run what is offered, read how it stands and
stop it. Nothing here decides on what waits for a human, except a form that the client shows to the
person in front of it. `mcp` is imported in this package and in `adapters/mcp` alone.
"""
