# ruff: noqa: E501  (Markdown, laid out as it is read)
"""Write the card of the three siblings from what their runs and their evaluations measured.

    python -m training.siblings_card --config training/bundled.toml --models engine/model/siblings --runs DIR

Reads `DIR/NAME/checkpoint/progress.json`, `DIR/NAME/run.json` and `DIR/NAME/evaluation.json` of each sibling; writes
`README.md` beside the models. No figure is typed by hand.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from training.checkpoint import PROGRESS, Progress
from training.config import load_config
from training.record import RUN

TITLES = {"mha": "MHA (multi-head)", "gqa": "GQA (grouped-query)", "mqa": "MQA (multi-query)"}

TEMPLATE = """\
---
license: apache-2.0
language: [zh, en]
library_name: transformers
pipeline_tag: text-generation
---

# Three siblings: MHA, GQA, MQA

Small Llamas of one shape ({layers} layers, hidden size {hidden}, feed-forward {intermediate}, {heads} query heads of size {head_dim}), trained on the
same rows in the same order for the same number of steps from the same seed. They differ in their KV heads alone, so
they show what sharing KV heads saves in the cache and what it costs. They are smaller than the bundled model, use its tokenizer, and
are named `bundled-mha`, `bundled-gqa` and `bundled-mqa`. Texts, licences and limits are those of `../bundled/README.md`.

| | KV heads | parameters | KV cache, bfloat16 | weights | Chinese | English | trained |
|---|---:|---:|---:|---:|---:|---:|---|
{rows}

Chinese and English are bits per character on held-out poems and books (the bundled model's card says how); lower is
better. A sibling with fewer KV heads also has fewer parameters: the shapes are not made up to the same count. One seed each: differences of a few
hundredths of a bit may be chance.

Trained in float32 on {machine} ({cores} cores; other work ran on the machine at the same time). Versions: {versions}.

```
{command}
```
"""


def main() -> None:
    """Write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--models", type=Path, required=True, help="folder with one folder a sibling")
    parser.add_argument("--runs", type=Path, required=True, help="folder with the runs' --out folders")
    args = parser.parse_args()
    rows = []
    for name, title in TITLES.items():
        shape = load_config(args.config, name)["model"]
        run = json.loads((args.runs / name / RUN).read_text(encoding="utf-8"))
        progress = Progress(**json.loads((args.runs / name / "checkpoint" / PROGRESS).read_text(encoding="utf-8")))
        found = json.loads((args.runs / name / "evaluation.json").read_text(encoding="utf-8"))
        head_dim = shape["hidden"] // shape["heads"]
        per_token = 2 * shape["layers"] * shape["kv_heads"] * head_dim * 2
        size = (args.models / name / "model.safetensors").stat().st_size
        rows.append(
            f"| {title} | {shape['kv_heads']} | {run['parameters']:,} | {per_token:,} bytes a token | {size:,} bytes "
            f"| {found['chinese']['bits_per_character']:.3f} | {found['english']['bits_per_character']:.3f} "
            f"| {progress.step:,} steps, {progress.tokens:,} tokens, {progress.seconds / 60:.1f} minutes |"
        )
    text = TEMPLATE.format(
        **{key: shape[key] for key in ("layers", "hidden", "intermediate", "heads")},
        head_dim=head_dim,
        rows="\n".join(rows),
        machine=run["machine"],
        cores=run["cores"],
        versions=run["versions"],
        command=run["command"].replace(f"--sibling {name}", "--sibling NAME"),
    )
    (args.models / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
