"""Which sequence computes which tokens in a step: continuous batching, chunked prefill, preemption.

There is no prefill phase and no decode phase here. A sequence has tokens and has computed some of them; each step lets
it catch up: by one token (decode), by many (prefill), or with its own earlier output (after a preemption by recompute).
"""
