"""Recorder of transformers' `model.generate` in a user's script. Writes a trace.

from kvtheater import watch_generate

with watch_generate(model, tokenizer, "run.kvtrace"):
    model.generate(**inputs, max_new_tokens=40)
"""

from engine.observe.hf_recorder.generate import WatchError, watch_generate

__all__ = ["WatchError", "watch_generate"]
