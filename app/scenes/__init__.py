"""Prepared runs of the page: presets that each show one thing, and the exhibits of the fault museum.

Their names and texts are in `words.<language>.json`, a file per language.
"""
