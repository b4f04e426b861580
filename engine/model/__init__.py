"""The forward pass: any Hugging Face causal LM that follows the attention interface, over a paged KV cache.

`loader` opens a model and refuses unsupported ones. `runner` executes one step. `batch` packs a step's tokens and
resolves block tables to slots. `attention` is the function that transformers calls in every layer; `attention_gather`
computes it, and every backend is tested against `attention_reference`. `capture` stores the arrays of a step.
`sampling` chooses tokens. `tokenizer` encodes text to ids, and `detokenizer` decodes bytes to text.
"""
