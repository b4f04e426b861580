"""The web server and the command line of KV Theater. Uses the engine's public face and never computes on tensors."""

from engine import __version__

__all__ = ["__version__"]
