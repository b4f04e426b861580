# ruff: noqa: E501  (Markdown, laid out as it is read)
"""Write the model card from the records of a run and its evaluation.

    python -m training.card --config training/bundled.toml --model FOLDER --run DIR --evaluation FILE.json \\
                            --kv-dtype FILE.json --window-policy FILE.json

Reads the run's `checkpoint/progress.json` and `run.json` and the model's `heads.json`; writes `FOLDER/README.md`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from training.checkpoint import PROGRESS, Progress
from training.config import Config, load_config
from training.heads import HEADS, TITLES
from training.record import RUN

TEMPLATE = """\
---
license: apache-2.0
language: [zh, en]
library_name: transformers
pipeline_tag: text-generation
---

# The bundled model

A small Llama that shows how a KV cache works without a download. It was trained from scratch on classical Chinese poetry
and simple English stories, and has memorized some poems in both languages. It is for demonstration, not for answering questions.

| | |
|---|---|
| architecture | `LlamaForCausalLM`, {layers} layers, hidden size {hidden}, feed-forward {intermediate} |
| attention | {heads} query heads on {kv_heads} key/value heads (GQA), head size {head_dim}, RoPE |
| parameters | {parameters:,}, input and output embedding shared |
| KV cache | 2 · {layers} layers · {kv_heads} heads · {head_dim} · 2 bytes = {kv_bytes:,} bytes a token in bfloat16 |
| weights | bfloat16 safetensors, {file_bytes:,} bytes |
| vocabulary | {vocab:,} tokens |
| positions | {positions:,}; trained on rows of {row_tokens}, and of {long_tokens:,} in the last {long_share:.0%} of the run |

It loads without remote code:

```python
tokenizer = AutoTokenizer.from_pretrained("engine/model/bundled")
model = AutoModelForCausalLM.from_pretrained("engine/model/bundled")
```

## Text form

There is no BOS token: a prompt is the beginning of a document. `<|endoftext|>` ends a document and is the padding. Each of the
{han:,} most frequent Chinese characters is one token, so a clause of seven characters with its punctuation is 8
tokens; English is BPE with the leading space inside the piece; everything else is bytes `<0x00>` to `<0xFF>`.
Decoding returns exactly the encoded text. Chinese punctuation is full-width in training (，。？！；：、).
{header:.0%} of the poems have a header line, which can also begin a prompt:
`标题：春江花月夜，作者：张若虚` and a newline.

## Measured

In float32 on held-out text: complete poems and books, chosen by a hash
({poem_count:,} poems, of which {zh[documents]:,} are scored, and {book_count} books:
{books}).

| held out, bits per character | the model | 5-gram | `xz -9e` | scored |
|---|---|---|---|---|
| Chinese poetry | {zh[bits_per_character]:.3f} | {zh[ngram_bits_per_character]:.3f} | {zh[xz_bits_per_character]:.3f} | \
{zh[characters]:,} characters |
| English stories | {en[bits_per_character]:.3f} | {en[ngram_bits_per_character]:.3f} | {en[xz_bits_per_character]:.3f} | \
{en[characters]:,} characters |

- Each document is scored separately, without its first token (which has no prediction) and with its end token.
- The 5-gram model (interpolated, modified Kneser-Ney over the same tokens) was fitted to the same training text, once.
- `xz` compresses the scored text as one file, without the training text; it is only a point of reference.
- Form: three clauses are generated after each of {form[openings]} held-out openings of seven characters. {form[greedy]:.1%} of the clauses
  have seven Chinese characters in greedy decoding, {form[sampled]:.1%} in sampling (temperature 0.8, top-k 40). The first of the three
  has seven in {form[greedy_couplets]:.1%} of the cases in greedy decoding, in {form[sampled_couplets]:.1%} in sampling.
- 春江花月夜 after its first couplet, greedy: {recited} of {recitable} characters before the first error.
- {famous_whole} of {famous} famous poems in the training mix are recited completely after their first sentence, greedily.
- {english_whole} of {english_poems} English poems are recited completely after their first line, greedily: {english_titles}.{english_failed}

### Rhyme and tone

Generated quatrains of seven characters after held-out openings, in modern pronunciation; real poems do not reach 100 %,
because pronunciation has changed. Rhyme: lines two and four end in the same of the thirteen tracks; level: both end
in a level tone; alternation: clauses whose second, fourth and sixth tones alternate.

| | quatrains | rhyme | level | alternation |
|---|---:|---:|---:|---:|
{prosody}

### Attention heads with a pattern

Mean attention weight of a head on one kind of key, on held-out poems of regular form ({poems_measured}); `uniform`: the weight if
attention were uniform. The page opens on *{opening}*.

| pattern | layer | head | mean weight | uniform |
|---|---:|---:|---:|---:|
{head_table}

### Quantized cache

With the paged engine, on held-out poems ({kv_zh:,} characters) and prose ({kv_en:,}), against a float32 cache: bits per
character, the largest and the mean absolute difference of logits (poems), and how often the greedy choice differs (poems).

| kv-cache-dtype | bytes per token | Chinese | English | largest | mean | choices changed |
|---|---:|---:|---:|---:|---:|---:|
{kv_rows}

### Attention window

Each query attends only to the last tokens (`--attention-window`), or to the first {sinks} and the last (`--attention-sinks`, as in StreamingLLM): bits
per character on the same held-out texts, computed completely under the policy, and the share of the keys of full attention that it hides.

| keys | first / last | Chinese | hidden | English | hidden |
|---|---|---:|---:|---:|---:|
{window_rows}

{window_verdict}

### Unedited samples

Sampled at temperature 0.8, top-k 40, seed 0, not selected. `↵` is a newline.

{samples}

## Training

{steps:,} steps, {tokens:,} tokens, {minutes:.1f} minutes ({speed:,.0f} tokens/s), seed {seed}, float32, on {machine}
({cores} cores; other work ran on the machine at the same time). {clock}
Versions: {versions}.

```
{command}
```

Muon for the matrices, Adam for the embedding and norms, learning rate constant and then linear to near zero.
`training/bundled.toml` has all settings: the mix is {english:.0%} English tokens and the rest poetry, with some
famous poems repeated ({repeat_first} copies of 春江花月夜 and of {english_first}, {repeat} of each other, over a full
schedule), which it memorizes.

## Limits

The model has learned the form of poems and of the sentences of stories, but no facts. Longer samples lose coherence. Greedy
decoding of text that is not memorized soon loops, so sample (temperature about 0.8, top-k 40). Prompts other than classical
poetry and old children's stories (modern Chinese, code, other languages) yield noise. The English books have the
attitudes of their time.

## Data

- Poems: [chinese-poetry](https://github.com/chinese-poetry/chinese-poetry) at commit
  `99ebbef7e1345c0985c44b9fd96a3f9e776f117b`, MIT licence, © 2016 JackeyGao; converted to simplified characters and
  full-width punctuation. The poems themselves are in the public domain.
- English: public-domain texts from Project Gutenberg by way of the GITenberg mirrors, the simplest
  {english_mb:.1f} MB of children's stories and folk tales.
- English poems: `training/english_poems.txt`, typed for this project from works in the public domain (their authors
  died between 1616 and 1898), each with its author and source.

Of the data, only the English poems are in this repository. The weights are under the Apache License 2.0, as is the project.
"""


def quote(sample: dict[str, str]) -> str:
    """Return a sample as a list item with its greedy and sampled continuation."""
    prompt, greedy, sampled = (sample[key].replace("\n", "↵") for key in ("prompt", "greedy", "sampled"))
    return f"- `{prompt}`\n  - greedy: {_literal(greedy)}\n  - sampled: {_literal(sampled)}"


PROSODY = {
    "real": "the held-out poems themselves",
    "greedy": "the model, greedy",
    "sampled": "the model, sampled",
    "shuffled": "the held-out poems' characters, shuffled",
}


def prosody_rows(found: dict[str, dict[str, float]]) -> str:
    """Return the table of rhyme and tone. Rows without regular quatrains are omitted."""
    return "\n".join(
        f"| {title} | {found[key]['quatrains']} | {found[key]['rhyme']:.0%} | {found[key]['level_rhyme']:.0%} "
        f"| {found[key]['alternation']:.0%} |"
        for key, title in PROSODY.items()
        if key in found
    )


def head_rows(found: dict[str, Any]) -> str:
    return "\n".join(
        f"| {TITLES[e['pattern']]} | {e['layer']} | {e['head']} | {e['mean_weight']:.2f} | {e['uniform']:.2f} |"
        for e in found["patterns"]
    )


def _literal(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def kv_rows(found: dict[str, Any]) -> str:
    pairs = zip(found["chinese"]["kinds"], found["english"]["kinds"], strict=True)
    return "\n".join(
        f"| {zh['kv_cache_dtype']} | {zh['bytes_per_token']:,} | {zh['bits_per_character']:.3f} | {en['bits_per_character']:.3f} "
        f"| {zh['largest_logit_difference']:.3f} | {zh['mean_logit_difference']:.4f} | {zh['greedy_choices_changed']:.1%} |"
        for zh, en in pairs
    )


def window_rows(found: dict[str, Any]) -> str:
    pairs = zip(found["chinese"]["policies"], found["english"]["policies"], strict=True)
    return "\n".join(
        f"| {zh['window'] + zh['sinks'] if zh['window'] else 'all'} | {zh['sinks']} / {zh['window'] or 'all'} | {zh['bits_per_character']:.3f} "
        f"| {zh['hidden_share']:.0%} | {en['bits_per_character']:.3f} | {en['hidden_share']:.0%} |"
        for zh, en in pairs
    )


def window_verdict(found: dict[str, Any]) -> str:
    """Return a sentence on the number of cases in which sinks help at an equal number of visible keys."""
    pairs = [
        (plain["bits_per_character"], sunk["bits_per_character"])
        for language in found.values()
        for plain, sunk in zip(language["policies"][1::2], language["policies"][2::2], strict=True)
    ]
    better = sum(sunk < plain for plain, sunk in pairs)
    return f"With equally many keys, a window with sinks is better than one without in {better} of {len(pairs)} cases."


def card(
    config: Config,
    folder: Path,
    progress: Progress,
    run: dict[str, Any],
    found: dict[str, Any],
    kv: dict[str, Any],
    window: dict[str, Any],
) -> str:
    heads = json.loads((folder / HEADS).read_text(encoding="utf-8"))
    shape, train, data = config["model"], config["train"], config["data"]
    head_dim = shape["hidden"] // shape["heads"]
    return TEMPLATE.format(
        **{key: shape[key] for key in ("layers", "hidden", "intermediate", "heads", "kv_heads")},
        head_dim=head_dim,
        parameters=run["parameters"],
        kv_bytes=2 * shape["layers"] * shape["kv_heads"] * head_dim * 2,
        file_bytes=(folder / "model.safetensors").stat().st_size,
        vocab=config["tokenizer"]["vocab_size"],
        positions=shape["max_positions"],
        row_tokens=train["row_tokens"],
        long_tokens=train["long"]["row_tokens"],
        long_share=train["long"]["share"],
        kv_zh=kv["chinese"]["characters"],
        kv_en=kv["english"]["characters"],
        kv_rows=kv_rows(kv),
        sinks=window["chinese"]["policies"][2]["sinks"],
        window_rows=window_rows(window),
        window_verdict=window_verdict(window),
        prosody=prosody_rows(found["seven_character_clauses"]["prosody"]),
        head_table=head_rows(heads),
        poems_measured=f"{max(e['queries'] for e in heads['patterns']):,} queries",
        opening=TITLES[heads["opening"]],
        han=config["tokenizer"]["cjk_characters"],
        header=data["header_share"],
        poem_count=found["heldout_poems"],
        book_count=len(found["heldout_books"]),
        books="; ".join(found["heldout_books"]),
        zh=found["chinese"],
        en=found["english"],
        form=found["seven_character_clauses"],
        recited=found["recited_characters"],
        recitable=found["demonstration_characters"],
        famous_whole=found["famous_recited_whole"],
        famous=found["famous"],
        english_whole=sum(poem["whole"] for poem in found["english_poems"]),
        english_poems=len(found["english_poems"]),
        english_titles="; ".join(_poem(poem) for poem in found["english_poems"] if poem["whole"]),
        english_failed=_failed(found["english_poems"]),
        english_first=data["famous"]["english_first"],
        samples="\n".join(quote(sample) for sample in found["samples"]),
        steps=progress.step,
        tokens=progress.tokens,
        minutes=progress.seconds / 60,
        speed=progress.tokens_per_second,
        seed=train["seed"],
        machine=run["machine"],
        cores=run["cores"],
        clock=_clock(progress),
        versions=run["versions"],
        command=run["command"],
        english=data["english_share"],
        repeat_first=data["famous"]["repeat_first"],
        repeat=data["famous"]["repeat"],
        english_mb=data["english_bytes"] / 1e6,
    )


def _poem(poem: dict[str, Any]) -> str:
    return f"{poem['title']} ({poem['author']})"


def _failed(poems: list[dict[str, Any]]) -> str:
    """Return a sentence with the poems that are not recited completely, or ""."""
    failed = [_poem(poem) for poem in poems if not poem["whole"]]
    return f" Not completely: {'; '.join(failed)}." if failed else ""


def _clock(progress: Progress) -> str:
    if progress.clock_bound:
        return (
            f"The clock ended the run before the {progress.steps:,} steps of its schedule, with the learning rate "
            "fully decayed by the clock, so it cannot be repeated exactly."
        )
    return "The step count, not the clock, ended the run: the same command with that step count repeats it."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="folder of the exported model")
    parser.add_argument("--run", type=Path, required=True, help="the run's --out folder")
    parser.add_argument("--evaluation", type=Path, required=True, help="output of training.evaluate")
    parser.add_argument("--kv-dtype", type=Path, required=True, help="output of training.kv_dtype")
    parser.add_argument("--window-policy", type=Path, required=True, help="output of training.window_policy")
    args = parser.parse_args()
    progress = Progress(**json.loads((args.run / "checkpoint" / PROGRESS).read_text(encoding="utf-8")))
    run = json.loads((args.run / RUN).read_text(encoding="utf-8"))
    found = json.loads(args.evaluation.read_text(encoding="utf-8"))
    kv = json.loads(args.kv_dtype.read_text(encoding="utf-8"))
    window = json.loads(args.window_policy.read_text(encoding="utf-8"))
    text = card(load_config(args.config), args.model, progress, run, found, kv, window)
    (args.model / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
