"""The KV cache: which sequence holds which block (pure Python), and the tensors behind the blocks (torch).

`kv_cache_manager` gives sequences their block tables; the questions that it answers are in `cache_books`. It has a
`group_manager` for each group of layers (`block_groups`), which changes the blocks and reports every change as a trace
operation; what swapping does is in `swapping`. Each group has a `block_pool` (blocks, free queue, hash index) and a
`swap_space` (blocks of the CPU store).

`prefix_cache` names content by hash chains, `prefix_index` finds it in all groups (`prefix_match` says what counts as
found), and `prefix_memory` knows why something was not found.

`kv_store` has the tensors, `kv_plane` their formats. `block_tiers` moves whole blocks between the device and CPU
memory, as `block_moves` lists them.
"""
