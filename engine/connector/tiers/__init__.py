"""Where whole KV blocks live outside the pool: CPU memory, then a folder on disk. Bytes in, bytes out; no tensor here.

    an engine's thread                            the writer's thread
    store(key, bytes) ──► CPU, evicted by use
                     └──► queue (bounded) ──────► disk: written aside, renamed, evicted by use, shared by servers
    lookup(keys) ◄─────── CPU, queue, disk        (no payload is touched)
    load(key)    ◄─────── CPU, queue, disk        (checked before it is used; put into CPU)

`keys` names a block, `tiers` is what an engine talks to; `cpu_tier` and `disk_tier` keep, `writer` carries to the disk.
`block_file` is one block as a file, `shared_folder` what several servers share: the lock, the count, who goes first.
`books` counts and remembers what was dropped and why, `speeds` decides by measurement whether loading beats computing,
`settings` reads `1GiB` and `DIR:10GiB`. docs/concepts/tiers.md compares it with others.
"""
