"""Live runs: an engine on its own thread, the commands of clients, and the broadcast of its log."""
