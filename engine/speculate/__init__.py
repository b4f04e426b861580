"""Speculative decoding: drafters that propose tokens, which the model verifies in one pass."""
