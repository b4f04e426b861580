"""Index of a log that is too long to load whole: per-record numbers, blocks at any record, requests.

`make` reads a log once, by the one reducer (`engine.trace.apply`), and writes two files; `LogIndex` answers from them
without reading the log again. They hold nothing beyond the log, may be deleted at any time, and are rebuilt when they
are damaged or the log differs.
"""
