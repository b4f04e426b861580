"""Requests, from the submitted prompt to the output texts."""
