"""Live sessions: an engine on its own thread, the commands of its clients, and the broadcast of its log."""
