"""Programs that run in a peer's environment, with only the standard library and the peer's packages.

`serving` implements the protocol; `engine.bench.peers.process` is the client.
"""
