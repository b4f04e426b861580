"""Programs that run in a peer's own environment, with only Python's library and the peer's packages. `serving` is the
protocol, `engine.bench.peers.process` the other end.
"""
