"""Table of options: a single description of each setting for command line, page, checks and help.

engine/config.py       the fields, each with an `Option`: range, strategies, the page's control
options/words/*.json   label and help of each option, one file per language
options/table.py       table rows from the field's type and its `Option`
options/check.py       checks of types, choices and ranges
options/refusal.py     errors as sentences in every language, from refusals.json
options/words.py       reader of labels and help
options/payload.py     the table as plain data, for front ends
"""
