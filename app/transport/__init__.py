"""Network input and output: one thread reads and writes all sockets, other threads compute. Clients are limited.

    browser <--sockets--> hub thread (gevent) --work--> worker threads (HTTP responses, events)
                               ^                             |
    engine and broadcast threads ----- packets, by `Hub.call` -----

A viewer needs no thread: greenlets of the hub wait for slow clients. The process is not monkey patched: engines,
broadcasts and workers are plain threads, and only the hub thread uses sockets.
"""
