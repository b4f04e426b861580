"""Recordings of runs as `.kvtrace` files: recording, an index, repair at start, playback without a model.

`library` stores the files and their `index`; `recorder` copies a run's log while it grows; `repair` fixes folder and
index at start; `shelf` has read-only files (shipped, or given on the command line); `playback` is an opened recording,
joined like a session; `endpoints` is the HTTP API.
"""
