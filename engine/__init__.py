"""Engine: a paged KV cache, its scheduler, the forward pass, and the trace of every step."""

__version__ = "0.4.0"
