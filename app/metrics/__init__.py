"""Metrics of the sessions' logs, under vLLM's names: counts for Prometheus, spans for OpenTelemetry.

Only HTTP requests are measured directly, since logs do not have them (`http.py`). All other numbers are a fold over
records: an observer subscribes to each run (`observer.py`), each record is folded into the counts of its model
(`fold.py`, `tally.py`), and a scrape reads the counts (`exposition.py`, `endpoint.py`). The state is bounded: counts,
unfinished requests, and the last accesses of each block of a pool.
"""
