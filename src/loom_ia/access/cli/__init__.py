"""The command line: one file for each command.

Law. A command only talks: it reads its words, calls the library, and shows what came back. The
answer goes to standard output and nothing else does; all that is about it goes to standard error.
Every text that a person reads passes through `_`. Exit codes: 0 completed, 1 not completed, 2
refused; 130 and 143 when a signal ended it.
"""
