"""KV cache outside an engine's pool: in cheaper memory (`tiers`, `offloading`) or on other instances (`transfer`)."""
