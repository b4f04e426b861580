"""The KV cache: block tables and block pools (pure Python), and the tensors of the blocks (torch).

`kv_cache_manager` manages the block tables of sequences; its read-only methods are in `cache_queries`. It has a
`group_manager` for each group of layers (`block_groups`), which changes the blocks and reports every change as a trace
operation; `swapping` adds swaps. Each group has a `block_pool` (blocks, free queue, hash index) and a `swap_space`
(blocks of the CPU store).

`prefix_cache` hashes the content of blocks. `prefix_index` looks the hashes up in all groups (`prefix_match` defines a
match), and `prefix_memory` explains misses.

`kv_store` has the tensors, and `kv_plane` their formats. `block_tiers` moves whole blocks between device and CPU
memory; `block_moves` collects these moves.
"""
