"""Measure the engine beside the bare floor and beside other agent frameworks.

Law. What runs inside a measured process (`cell`, `script`, `workloads`, `systems`, `peers`) needs
the standard library and the system that it measures, nothing else: it also runs in environments
where this package's own dependencies are absent.
"""
