"""Watching a running server from outside: what it publishes becomes a log. Nothing here can change what it watches."""
