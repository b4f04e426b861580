"""A class on several processes: web workers hold sockets, the engine's process has everything else.

    browser <--sockets--> web worker (`kvtheater worker`)  <--Redis--> engine's process (`kvtheater serve`)
               files and words from its own disk; other HTTP is asked of the engine's process

An event of a worker's client is carried out by the engine's process as if the client were its own; what that says goes
to each worker once, packed, with the numbers of those it is for. Bounds on clients, their outboxes and floods are kept
where the socket is, by the same code (`app/transport/`).

Why not Flask-SocketIO's own message queue (`message_queue="redis://..."`): its manager shares out `emit` alone, while
every process would have to carry out events, and the engine is in one; it sends a message to every process, bytes as
base64 in JSON, an acknowledgement as a message each; it does not say what got lost on the way, and refuses to run
with gevent in a process that is not monkey patched, which engines and their threads must not be.

Redis keeps nothing: its publish and subscribe drops what nobody hears. So frames are numbered, and where one is
missing, or nothing is heard for a while, the worker begins anew: its clients come back, and join where they were.
"""
