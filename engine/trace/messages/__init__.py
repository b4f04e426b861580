"""Operations in words: one entry each, in every language, for the page and for the command line.

`words.<language>.json` holds them. Under `op`, the entry of a type of operation has up to three registers:

    chain   its name, for lists and links
    short   one sentence with the numbers that matter most
    long    the whole of it, with every number

and below these its *facets*: fields with a fixed set of values (`reason`, `verdict`, `to`, …), and what follows from
fields in the same way (`facets.CASES`). Each value of a facet has an entry with the same registers. The message of an
operation in a register is the text of its type, then those of its facets' values; a missing text adds nothing.

A text's placeholders are the operation's own fields, and what `facets` derives from its record. A field is written by
its name: `seq_id` and what ends so as a sequence's name, block ids as ranges, `num_bytes` with its unit, record
indices counted from the reader's first. `{n|block|blocks}` chooses by number.

The page does the same with the same texts (`static/js/core/operations.js`, `static/js/i18n/operations.js`; it also
tells several operations at once); `tests/js/test_messages_parity.py` holds both to the same sentences.
"""

from engine.trace.messages.facets import Context, MessageKey, facets_of, messages_of
from engine.trace.messages.words import Register, Voice, content_of, in_language, languages, texts

__all__ = [
    "Context",
    "MessageKey",
    "Register",
    "Voice",
    "content_of",
    "facets_of",
    "in_language",
    "languages",
    "messages_of",
    "texts",
]  # fmt: skip
