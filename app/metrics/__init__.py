"""What the theaters' logs add up to, under vLLM's names: counts for Prometheus, spans for OpenTelemetry.

Nothing is measured here but HTTP requests, which are of no log (`http.py`). Every other number is a fold over records:
a theater's run is subscribed to (`observer.py`), each record is folded into the counts of its model (`fold.py`,
`tally.py`), and a scrape reads them (`exposition.py`, `endpoint.py`). What is kept is bounded: counts, the unfinished
requests, and when each block of a pool was last used.
"""
