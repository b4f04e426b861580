# ruff: noqa: E501  (Markdown, laid out as it is read)
"""Write the card of the four siblings from the records of their runs and evaluations.

    python -m training.siblings_card --config training/bundled.toml --models engine/model/siblings --runs DIR

Reads `DIR/NAME/checkpoint/progress.json`, `DIR/NAME/run.json` and `DIR/NAME/evaluation.json` of each sibling with a folder
in DIR, and `DIR/recall.json` if it exists, and updates `siblings.json` in this folder. Writes `README.md` into the models'
folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from training.checkpoint import PROGRESS, Progress
from training.config import Section, load_config
from training.delta_net import FORGET, LONGEST, SHORTEST
from training.recall import DISTANCES, LEARNED, PASSAGE, TRIALS
from training.record import RUN

TITLES = {
    "mha": "MHA (multi-head)",
    "gqa": "GQA (grouped-query)",
    "mqa": "MQA (multi-query)",
    "hybrid": "hybrid (two of three layers keep a state)",
}
RECORD = Path(__file__).parent / "siblings.json"
RECALL = "recall.json"
LANGUAGES = ("chinese", "english")
NUMBER = 2  # bytes in bfloat16

TEMPLATE = """\
---
license: apache-2.0
language: [zh, en]
library_name: transformers
pipeline_tag: text-generation
---

# Four siblings: MHA, GQA, MQA, hybrid

Small models ({layers} layers, hidden size {hidden}, feed-forward {intermediate}, {heads} query heads of size {head_dim}), trained on the
same rows in the same order for the same number of steps from the same seed. They are smaller than the bundled model, use its
tokenizer, and are named `bundled-mha`, `bundled-gqa`, `bundled-mqa` and `bundled-hybrid`. Texts, licences and limits are those of
`../bundled/README.md`.

MHA, GQA and MQA are Llamas that differ only in the number of KV heads, so they show what shared KV heads save in the cache and
how much worse the predictions become. The hybrid is a `Qwen3_5ForCausalLM`: its first two layers are gated delta nets, which have a state
of constant size instead of keys and values; its last layer has attention with {kv_heads} KV heads. It shows the same for a memory that
does not grow. As in Qwen3.5, its attention has a gate and normalised queries and keys, so it differs from the Llamas in more than
its states.

| | KV heads | parameters | KV cache, bfloat16 | state | weights | Chinese | English | trained |
|---|---:|---:|---:|---:|---:|---:|---:|---|
{rows}

Chinese and English are bits per character on held-out poems and books (see the card of the bundled model); lower is
better. The models do not have equal numbers of parameters. Each was trained with one seed, so differences of a few
hundredths of a bit may be chance. The state is that of one sequence of any length, with all numbers in bfloat16.

The delta nets have {state_heads} heads with keys of {state_key_dim} and values of {state_value_dim} numbers, and a convolution over {convolution} tokens. Documents
share a row in training. A mask separates them in attention, and the state is cleared at the beginning of a document: the
convolution does not reach across it, and the decay there is e^{forget:.0f}. So every document begins with an empty state, as at
inference. The initial time steps are drawn from {shortest} to {longest}, as in the reference implementation.

## Memory of a passage

Bits per token that are saved at the second reading of a passage of {passage} tokens, by the number of tokens between the readings.
Measured on the last {counted} tokens of {trials} passages of held-out text for each distance and language, compared with another passage
instead of the first reading. 0: nothing is remembered.

| | {distances} |
|---|{rules}
{recall}

## Training

Trained in float32; other work ran on the machines at the same time.

{machines}

```
{command}
```
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True, help="folder with one folder per sibling")
    parser.add_argument("--runs", type=Path, required=True, help="folder with the runs' --out folders")
    args = parser.parse_args()
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    for name in TITLES:
        if (args.runs / name).is_dir():
            record[name] = figures(args.runs / name)
    if (args.runs / RECALL).is_file():
        record["recall"] = json.loads((args.runs / RECALL).read_text(encoding="utf-8"))
    RECORD.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    shapes = {name: load_config(args.config, name)["model"] for name in TITLES}
    rows = [row(TITLES[name], shapes[name], record[name], args.models / name) for name in TITLES]
    (args.models / "README.md").write_text(card(shapes["hybrid"], rows, record), encoding="utf-8")


def figures(run: Path) -> dict[str, Any]:
    """Return the figures of a run and its evaluation."""
    progress = Progress(**json.loads((run / "checkpoint" / PROGRESS).read_text(encoding="utf-8")))
    found = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    about = json.loads((run / RUN).read_text(encoding="utf-8"))
    return {
        "parameters": about["parameters"],
        "steps": progress.step,
        "tokens": progress.tokens,
        "minutes": round(progress.seconds / 60, 1),
        "chinese": round(found["chinese"]["bits_per_character"], 3),
        "english": round(found["english"]["bits_per_character"], 3),
        "machine": about["machine"],
        "cores": about["cores"],
        "versions": about["versions"],
    }


def row(title: str, shape: Section, found: dict[str, Any], folder: Path) -> str:
    kinds = shape.get("layer_types", ["full_attention"] * shape["layers"])
    attending = kinds.count("full_attention")
    per_token = 2 * attending * shape["kv_heads"] * (shape["hidden"] // shape["heads"]) * NUMBER
    state = (len(kinds) - attending) * state_numbers(shape) * NUMBER if attending < len(kinds) else 0
    size = (folder / "model.safetensors").stat().st_size
    return (
        f"| {title} | {shape['kv_heads']} | {found['parameters']:,} | {per_token:,} bytes a token "
        f"| {f'{state:,} bytes' if state else 'none'} | {size:,} bytes | {found['chinese']:.3f} "
        f"| {found['english']:.3f} | {found['steps']:,} steps, {found['tokens']:,} tokens, {found['minutes']} minutes |"
    )


def state_numbers(shape: Section) -> int:
    """Return the size of a gated delta net's state: a matrix per head, and the last inputs of the convolution."""
    keys, values = (shape["state_heads"] * shape[name] for name in ("state_key_dim", "state_value_dim"))
    return int(values * shape["state_key_dim"] + (2 * keys + values) * shape["convolution"])


def recall_row(name: str, found: dict[str, Any]) -> str:
    saved = [f"{found[language][str(d)]['saved']:.2f}" for language in LANGUAGES for d in DISTANCES]
    return f"| `{name}` | {' | '.join(saved)} |"


def card(hybrid: Section, rows: list[str], record: dict[str, Any]) -> str:
    machines: dict[str, list[str]] = {}
    for name in TITLES:
        about = "{machine} ({cores} cores). Versions: {versions}.".format_map(record[name])
        machines.setdefault(about, []).append(name)
    steps = {record[name]["steps"] for name in TITLES}
    return TEMPLATE.format(
        **hybrid,
        head_dim=hybrid["hidden"] // hybrid["heads"],
        forget=FORGET,
        shortest=SHORTEST,
        longest=LONGEST,
        rows="\n".join(rows),
        passage=PASSAGE,
        counted=PASSAGE - LEARNED,
        trials=TRIALS,
        distances=" | ".join(f"{language}, {distance}" for language in LANGUAGES for distance in DISTANCES),
        rules="---:|" * len(LANGUAGES) * len(DISTANCES),
        recall="\n".join(recall_row(name, found) for name, found in record["recall"].items()),
        machines="\n".join(f"- {', '.join(names)}: {about}" for about, names in machines.items()),
        command="python -m training.train --corpus CORPUS --config training/bundled.toml --sibling NAME --out DIR "
        f"--tokenizer engine/model/bundled --steps {', '.join(map(str, sorted(steps)))}",
    )


if __name__ == "__main__":
    main()
