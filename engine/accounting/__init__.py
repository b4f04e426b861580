"""Formulas for a model's KV cache bytes, floating-point operations and bytes moved. Nothing is measured."""
