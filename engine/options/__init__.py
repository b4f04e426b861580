"""Table of options: each setting described once, for the command line, the page, the checks and the help.

engine/config.py       the fields, each with an `Option`: range, strategies, the page's control
options/words/*.json   label and help of each, one file a language
options/table.py       rows made of both the field's type and its `Option`
options/check.py       the ranges of the table, checked
options/refusal.py     what a check refuses, one sentence in every language: refusals.json
options/words.py       the words, read
options/payload.py     the table as plain data, for front ends
"""
