"""Indexes and tables derived from long logs, and queries over them."""
