"""Runs that the page offers ready made: presets that each show one thing, and the exhibits of the fault museum.

What they are called and what to watch is in `words.<language>.json`: another language is another file.
"""
