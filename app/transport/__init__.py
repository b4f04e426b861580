"""Network input and output, with limits per client. One thread reads and writes all sockets, other threads compute.

    browser <--sockets--> hub thread (gevent) --work--> worker threads (HTTP responses, events)
                               ^                             |
    engine and broadcast threads ----- packets, by `Hub.call` -----

Greenlets of the hub wait for slow clients, so a viewer needs no thread. The process is not monkey patched: engines,
broadcasts and workers are plain threads, and only the hub thread uses sockets.
"""
