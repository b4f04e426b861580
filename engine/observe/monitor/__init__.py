"""Monitor of a running server, which writes its published events and metrics to a log. Does not change the server."""
