"""OpenAI-compatible and Anthropic-compatible APIs, on the same engines that the page shows.

    client --HTTP--> worker thread: parses the request (request.py)
                       |
                       v             engine thread, between two steps
                 AsyncEngine (engine.py): fair_queue.py --> the engine's queue --> step() --> record
                       ^                                                                     |
    client <--HTTP-- hub thread: updates the Call (call.py) from the record and responds (response.py)

No thread blocks: a waiting request costs a greenlet, and its output is read from the log's records, as for the page.
"""
