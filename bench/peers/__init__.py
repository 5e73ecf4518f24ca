"""Other agent frameworks, each doing the same work in its own environment.

An adapter uses its framework as the framework's own documentation shows, with whatever makes it
fast and keeps its promises: tracing off, no limit on turns, writes that are awaited.
"""
