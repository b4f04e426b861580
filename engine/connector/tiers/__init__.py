"""Storage of KV blocks, as bytes, outside the pool: in CPU memory and in a folder on disk.

    an engine's thread                            the writer's thread
    store(key, bytes) ──► CPU, LRU
                     └──► queue (bounded) ──────► disk: temporary file, rename, LRU, shared by servers
    lookup(keys) ◄─────── CPU, queue, disk        (no payload is read)
    load(key)    ◄─────── CPU, queue, disk        (verified before use; promoted to CPU)

`keys` computes the keys of blocks. `tiers` is the engine's interface to `cpu_tier` and `disk_tier`; `writer` writes to
the disk tier. `block_file` is the file format of a block, and `shared_folder` has the lock, the usage count and the
eviction of a folder that several servers share. `counters` counts loads, stores and drops, `speeds` decides by
measurement whether loading is faster than computing, and `settings` parses `1GiB` and `DIR:10GiB`.
docs/concepts/tiers.md compares these tiers with other systems.
"""
