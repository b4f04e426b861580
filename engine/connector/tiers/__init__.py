"""Storage of whole KV blocks outside the pool: CPU memory, then a folder on disk. Bytes in, bytes out; no tensors.

    an engine's thread                            the writer's thread
    store(key, bytes) ──► CPU, LRU
                     └──► queue (bounded) ──────► disk: temporary file, rename, LRU, shared by servers
    lookup(keys) ◄─────── CPU, queue, disk        (no payload is read)
    load(key)    ◄─────── CPU, queue, disk        (checked before it is used; promoted to CPU)

`keys` names a block, `tiers` is the engine's interface; `cpu_tier` and `disk_tier` store, `writer` writes to the disk.
`block_file` is the file format of a block, `shared_folder` what several servers share: lock, usage count, eviction
order. `books` counts and records drops with their reasons, `speeds` decides by measurement whether loading beats
computing, `settings` parses `1GiB` and `DIR:10GiB`. docs/concepts/tiers.md compares it with other systems.
"""
