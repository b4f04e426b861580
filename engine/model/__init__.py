"""The forward pass: any Hugging Face causal LM that follows the attention interface, over a paged KV cache.

`loader` opens a model and refuses what cannot work; `runner` executes one step; `batch` packs a step's tokens and
resolves block tables to slots; `attention` is the function that transformers calls in every layer, `attention_gather`
its arithmetic and `attention_reference` the plain form that every backend is tested against; `capture` keeps the
arrays a step computed; `sampling` chooses tokens; `tokenizer` and `detokenizer` turn text into ids and bytes into text.
"""
