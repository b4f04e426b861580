"""Other programs as a log: a server's events, vLLM from inside, a plain `generate`."""
