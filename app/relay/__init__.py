"""Relay that distributes clients over several processes: web workers own the sockets, one server runs the engine.

    browser <--sockets--> web worker (`kvtheater worker`)  <--Redis--> server (`kvtheater serve`)
               serves files and words from its disk and forwards other HTTP requests to the server

The server handles events of a worker's client like those of its own clients. Each message is sent once per worker,
encoded, with the numbers of its recipients. The process that owns a socket enforces the limits on clients, outboxes and
event rates, with the same code in both (`app/transport/`).

Flask-SocketIO's message queue (`message_queue="redis://..."`) is not used for several reasons. It distributes `emit`
only, so every process would have to handle events, but the engine is in one process. It sends each message to every
process, with bytes as base64 in JSON, and each acknowledgement as a separate message. It does not detect lost messages.
With gevent it requires monkey patching, which engine threads do not allow.

Redis publish/subscribe stores nothing and drops messages without a subscriber. Frames are therefore numbered. After a
gap or a timeout the worker restarts its link, and its clients reconnect and resume.
"""
