"""Formulas over a model's facts: bytes of KV cache, floating-point operations, bytes moved. Nothing is measured."""
