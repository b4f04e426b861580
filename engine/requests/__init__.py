"""Requests: from what a caller asks to the texts of their sequences."""
