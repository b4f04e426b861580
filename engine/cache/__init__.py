"""The KV cache: who owns which block (pure Python) and the tensors behind the blocks (`kv_store`, torch).

`block_pool` knows blocks, the free queue and the hash index; `prefix_cache` names content by hash chains;
`kv_cache_manager` gives sequences their block tables and reports every change as a trace operation.
"""
