"""Model with scripted output, to test clients with tool calls and reasoning.

It is a Llama without attention, so the next token depends on the last token only. The chat template ends a prompt with
a token for the role of the last message, which selects a script. The engine, its cache and the tokenizer are real.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

END = "<|end|>"
ROLES = ("system", "user", "assistant", "tool")
TEMPLATE = """
{%- for tool in tools or [] %}<tool>{{ tool | tojson }}{% endfor %}
{%- for message in messages %}<|{{ message.role }}|>
{%- if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|end|>
{%- endfor %}{% if add_generation_prompt %}<|after {{ messages[-1].role }}|>{% endif %}"""


def write_scripted(
    folder: Path,
    scripts: Mapping[str, Sequence[str]],
    template: str = TEMPLATE,
    special: Sequence[str] = (),
    num_positions: int = 4096,
) -> Path:
    """Write a model into `folder`.

    `scripts`: texts to generate, a token each, by the role of the last message or the token that ends the prompt.
    `special`: texts that are special tokens.
    """
    starts = {start: f"<|after {start}|>" if start in ROLES else start for start in (*ROLES, *scripts)}
    marks = [END, *starts.values(), *(f"<|{role}|>" for role in ROLES)]
    lines = [text for texts in scripts.values() for text in texts]
    assert len({*lines}) == len(lines), "the texts of all scripts must differ: a token determines the next one"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({sign: index for index, sign in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    tokenizer.add_tokens([AddedToken(text, special=text in special, normalized=False) for text in lines])
    following = dict[str, str]()
    for start, texts in scripts.items():
        chain = [starts[start], *texts, END]
        following |= dict(pairwise(chain))
    ids = {text: tokenizer.token_to_id(text) for text in {*following, *following.values()}}
    size = tokenizer.get_vocab_size()
    config = LlamaConfig(
        vocab_size=size, hidden_size=-(-size // 16) * 16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=num_positions, tie_word_embeddings=False,
        eos_token_id=ids[END], bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(0.0 if weight.dim() > 1 else 1.0)
        model.model.embed_tokens.weight.fill_diagonal_(1.0)
        for text, then in following.items():
            model.lm_head.weight[ids[then], ids[text]] = 10.0
    model.save_pretrained(folder)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END)
    wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    return folder


def hermes(name: str, **arguments: object) -> list[str]:
    """Return the tokens of a tool call as Hermes and Qwen write them."""
    return ["<tool_call>", f'{{"name": "{name}", ', f'"arguments": {json.dumps(arguments)}}}', "</tool_call>"]
