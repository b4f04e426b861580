"""Requests to language models, and what a prefix cache makes of them, without a model."""
