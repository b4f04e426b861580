"""Requests: from the submitted prompt to the texts of their sequences."""
