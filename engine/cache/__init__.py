"""The KV cache: which sequence holds which block (pure Python) and the tensors behind the blocks (`kv_store`, torch).

`block_pool` knows blocks, the free queue and the hash index. `prefix_cache` names content by hash chains;
`prefix_index` finds it, and `prefix_memory` knows why not. `swap_space` counts the blocks of the CPU store.
`kv_cache_manager` gives sequences their block tables and reports every change as a trace operation.
"""
