"""Training of the bundled model. The product does not import this package."""
