"""Recordings of runs as `.kvtrace` files: recording, an index, repair at start, playback without a model.

`library` stores the files and their `index`; `recorder` copies a run's log while it grows; `repair` fixes folder and
index at start; `shelf` are read-only files (those that come with the program, or given on the command line); `playback`
is a recording on stage, joined like a session; `endpoints` is all of it over HTTP.
"""
