"""Scheduler: continuous batching, chunked prefill, preemption.

The scheduler has no prefill phase and no decode phase. A sequence has tokens, some of which are computed. Each step
computes more of them: one (decode), many (prefill), or earlier output again (after a preemption by recompute).
"""
