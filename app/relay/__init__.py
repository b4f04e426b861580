"""Relay for a class on several processes: web workers hold sockets, the engine's process has everything else.

    browser <--sockets--> web worker (`kvtheater worker`)  <--Redis--> engine's process (`kvtheater serve`)
               files and words from its own disk; other HTTP is forwarded to the engine's process

An event of a worker's client is handled by the engine's process as if the client were its own; each of its messages
goes to each worker once, packed, with the numbers of the recipients. Limits on clients, their outboxes and floods are
enforced where the socket is, by the same code (`app/transport/`).

Why not Flask-SocketIO's own message queue (`message_queue="redis://..."`): its manager distributes `emit` alone, while
every process would have to handle events, and the engine is in one; it sends a message to every process, bytes as
base64 in JSON, an acknowledgement as a message each; it does not detect lost messages, and refuses to run with gevent
in a process that is not monkey patched, which engines and their threads must not be.

Redis stores nothing: its publish and subscribe drops messages without a subscriber. So frames are numbered, and after a
gap, or a silence, the worker restarts its link: its clients reconnect, and join where they were.
"""
