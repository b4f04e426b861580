"""The API that OpenAI's clients speak, on the same engines that the page shows.

    client --HTTP--> worker thread: what is asked (asked.py)
                       |
                       v             engine thread, between two steps
                 AsyncEngine (engine.py): lanes of clients --> the engine's queue --> step() --> record
                       ^                                                                          |
    client <--HTTP-- hub thread: Call (call.py), told by the record what came, and answers (told.py)

No thread waits for anybody: a request costs a greenlet while it waits, and what comes of it is read from the log's
records, as the page reads them.
"""
