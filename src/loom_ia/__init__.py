"""Loom-IA: an asynchronous engine for agents that do real work."""
