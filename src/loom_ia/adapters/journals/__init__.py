"""Where events are kept: in memory, in one SQLite file, in one JSONL file per session.

Nothing is imported here: a process loads the journal that it uses, and no other.
"""
