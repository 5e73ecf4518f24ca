"""The hand: it performs what the core decides, and writes each fact before it acts on it.

Everything here is asynchronous and touches the world only through ports.
"""
