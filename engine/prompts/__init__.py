"""Prefix-cache analysis of requests to language models, without a model."""
