"""Programs that run in a peer's own environment, where this program's packages are not: only Python's library and the
peer's. `serving` has the lines that they speak, `engine.bench.peers.process` is the other end.
"""
