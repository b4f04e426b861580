"""Web server and command line of KV Theater. This package uses the engine's public API and no tensor operations."""

from engine import __version__

__all__ = ["__version__"]
