"""Stores of what was done under a key."""
