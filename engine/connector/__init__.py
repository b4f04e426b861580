"""Keys and values outside an engine's pool: kept in cheaper memory (`tiers`, `offloading`)."""
