"""Recorders of other programs: a server's events, vLLM's scheduler, transformers' `generate`."""
