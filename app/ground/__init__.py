"""Errors, settings, paths, JSON and routes for all other packages of the application; imports none of them."""
