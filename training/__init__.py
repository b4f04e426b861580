"""Trains the bundled model. Runs beside the product, never inside it."""
