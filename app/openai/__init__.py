"""The API that OpenAI's clients speak, on the same engines that the page shows.

    client --HTTP--> worker thread: the request (request.py)
                       |
                       v             engine thread, between two steps
                 AsyncEngine (engine.py): fair_queue.py --> the engine's queue --> step() --> record
                       ^                                                                     |
    client <--HTTP-- hub thread: Call (call.py) gets the record and answers (response.py)

No thread blocks: a waiting request costs a greenlet, and its output is read from the log's records, as the page does.
"""
