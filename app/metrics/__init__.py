"""Metrics of the sessions' logs, under vLLM's names: counts for Prometheus, spans for OpenTelemetry.

Only HTTP requests are measured here, which are in no log (`http.py`). Every other number is a fold over records: a
session's run is subscribed to (`observer.py`), each record is folded into the counts of its model (`fold.py`,
`tally.py`), and a scrape reads them (`exposition.py`, `endpoint.py`). The state is bounded: counts, the unfinished
requests, and when each block of a pool was last used.
"""
