"""The server's models: loading, leasing, and the engine behind a session."""
