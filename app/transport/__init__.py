"""Network input and output: one thread reads and writes all sockets, others compute; clients are limited.

    browser <--sockets--> hub thread (gevent) --work--> worker threads (HTTP answers, events)
                               ^                             |
    engine and broadcast threads ----- packets, by `Hub.call` -----

A viewer costs no thread: what waits for a slow client waits here, in greenlets. The process is not monkey patched:
engines, broadcasts and workers are plain threads, and nothing but the hub thread touches a socket.
"""
