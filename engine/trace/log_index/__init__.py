"""Index of a log that is too long to load completely: per-record numbers, blocks at any record, requests.

`make` reads a log once with `engine.trace.apply` and writes two files, which `LogIndex` reads instead of the log. They
are derived from the log alone and may be deleted at any time. If they are damaged or of another log, they are rebuilt.
"""
