"""Index of a log that is too long to load completely: per-record numbers, blocks at any record, requests.

`make` reads a log once with `engine.trace.apply` and writes two files; `LogIndex` reads them in place of the log. They
contain nothing beyond the log, may be deleted at any time, and are rebuilt when they are damaged or of another log.
"""
