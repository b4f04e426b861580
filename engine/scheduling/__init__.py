"""Scheduler: continuous batching, chunked prefill, preemption.

The scheduler has no prefill phase and no decode phase. Each step computes more tokens of a sequence: one (decode), many
(prefill), or earlier output again (after a preemption by recompute).
"""
