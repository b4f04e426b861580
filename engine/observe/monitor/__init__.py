"""Monitor of a running server: its published events and metrics become a log. Read-only for the server."""
