"""Recordings of runs as `.kvtrace` files, which are played back without a model.

`library` stores the files and their `index`. `repair` makes folder and index consistent at the start. `shelf` has
read-only files, which are shipped or given on the command line. `playback` has opened recordings, which clients join
like sessions. `endpoints` is the HTTP API. `app/session/recorder.py` writes the files.
"""
