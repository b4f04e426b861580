"""Runs kept as `.kvtrace` files: recording, an index, repair at start, playback without a model.

`library` keeps the files and their `index`; `recorder` copies a run's log while it grows; `repair` puts folder and
index right at start; `shelf` are files that are only shown (those that come with the program, or given on the command
line); `playback` is a recording on stage, joined like a theater; `endpoints` is all of it over HTTP.
"""
