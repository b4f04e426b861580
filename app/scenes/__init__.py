"""Prepared runs of the page: presets, each of which demonstrates one thing, and the exhibits of the fault museum.

Their titles and texts are in `words.<language>.json`.
"""
