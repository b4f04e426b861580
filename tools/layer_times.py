"""Write engine/accounting/layer_times.toml: Vidur's measured times of a layer's matrices on A100 and H100.

    python -m tools.layer_times FOLDER        FOLDER: a clone of github.com/microsoft/vidur

For each card, model and tensor-parallel size, the medians of a layer's operations except attention are summed on a
coarse grid of token counts. The communication is Vidur's all-reduce on a DGX for the bytes of that many tokens; a layer
needs two. Its attention times are not used, because the simulator uses the roofline.

There are no published layer times of OPT, which DistServe ran. The most similar measured layer replaces it, with times
multiplied by the ratio of the matrices' parameters. Such entries have `layers_of` and `scaled`.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from engine.accounting.presets import ModelPreset, model_presets

TARGET = Path(__file__).parents[1] / "engine" / "accounting" / "layer_times.toml"
GRID = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
MODELS = {  # id of the preset -> Vidur's name
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "llama-3.1-8b": "meta-llama/Meta-Llama-3-8B",  # 3 and 3.1 have the same layers
    "llama-3.1-70b": "meta-llama/Meta-Llama-3-70B",
    "qwen-72b": "Qwen/Qwen-72B",
}
STAND_INS = {  # id of a preset without times -> Vidur's name of the model with the most similar layer
    "opt-13b": "internlm/internlm-20b",  # same width and number of heads
    "opt-66b": "Qwen/Qwen-72B",
}
CARDS = {"a100": "a100-80gb", "h100": "h100-80gb"}
OPS = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj",
)  # fmt: skip
ADDS = 2  # residual additions of a layer; Vidur measures one as `add`
ELEMENT_BYTES = 2

Row = dict[str, str]


class Repository(NamedTuple):
    """The newest commit of a clone, read through git."""

    folder: Path

    def git(self, *command: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.folder), *command], capture_output=True, text=True, check=True
        ).stdout

    def rows(self, path: str) -> list[Row]:
        """Return the rows of a CSV file, or [] if the commit lacks it."""
        if not self.git("ls-tree", "HEAD", path):
            return []
        return list(csv.DictReader(io.StringIO(self.git("show", f"HEAD:{path}"))))


def layer_milliseconds(row: Row) -> float:
    """Return the time of a layer without attention."""

    def milliseconds(op: str) -> float:
        return float(row[f"time_stats.{op}.median"])

    return sum(milliseconds(op) for op in OPS) + ADDS * milliseconds("add")


def all_reduces(rows: list[Row]) -> dict[int, list[tuple[int, float]]]:
    """Return number of GPUs in a node -> sorted (bytes, milliseconds) of the slowest rank."""
    slowest: dict[tuple[int, int], float] = defaultdict(float)
    for row in rows:
        if row["num_workers"] == row["devices_per_node"]:  # all workers on one node
            key = int(row["num_workers"]), int(row["size"])
            slowest[key] = max(slowest[key], float(row["time_stats.all_reduce.median"]))
    found: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for (workers, size), milliseconds in sorted(slowest.items()):
        found[workers].append((size, milliseconds))
    return found


def interpolate(points: list[tuple[int, float]], at: int) -> float:
    """Interpolate linearly: constant before the first point, and proportional to `at` after the last."""
    if at <= points[0][0]:
        return points[0][1]
    if at > points[-1][0]:
        return points[-1][1] * at / points[-1][0]
    (x0, y0), (x1, y1) = next(pair for pair in pairwise(points) if at <= pair[1][0])
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def num_matrix_params(hidden: int, kv_share: float, intermediate: int, is_gated: bool) -> float:
    """Return the number of parameters of a layer's matrices. `kv_share`: KV heads / query heads."""
    return hidden * hidden * (2 + 2 * kv_share) + (3 if is_gated else 2) * hidden * intermediate


def scale_of(preset: ModelPreset, row: Row) -> float:
    """Return the ratio of matrix parameters of the preset's layer to the measured one. OPT's MLP has no gate."""
    measured = num_matrix_params(
        int(row["n_embd"]),
        int(row["n_kv_head"]) / int(row["n_head"]),
        int(row["n_expanded_embd"]),
        row["use_gated_mlp"] == "True",
    )
    kv_share = preset.num_kv_heads / preset.num_heads
    return num_matrix_params(preset.hidden_size, kv_share, preset.intermediate_size, is_gated=False) / measured


def entry(card: str, model: str, tp: int, rows: list[Row], links: list[tuple[int, float]]) -> str:
    """Return a table of the file. `rows`: measurements of the model's layer or of its replacement."""
    preset = next(one for one in model_presets() if one.id == model)
    scale = scale_of(preset, rows[0]) if model in STAND_INS else 1.0
    by_tokens: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        by_tokens[int(row["num_tokens"])].append(layer_milliseconds(row))
    grid = [tokens for tokens in GRID if tokens in by_tokens]
    lines = [
        "[[layer]]",
        f'gpu = "{CARDS[card]}"',
        f'model = "{model}"',
        f"tensor_parallel = {tp}",
        f"tokens = {grid}",
        f"milliseconds = {[round(scale * median(by_tokens[tokens]), 4) for tokens in grid]}",
    ]
    if model in STAND_INS:
        lines += [f'layers_of = "{STAND_INS[model].split("/")[1]}"', f"scaled = {scale:.4f}"]
    if tp > 1:
        width = preset.hidden_size * ELEMENT_BYTES
        lines.append(f"all_reduce = {[round(interpolate(links, tokens * width), 4) for tokens in grid]}")
    return "\n".join(lines)


def file_text(repository: Repository) -> str:
    commit = repository.git("rev-parse", "HEAD").strip()
    dated = repository.git("log", "-1", "--format=%cs").strip()
    entries = []
    for card in CARDS:
        links = all_reduces(repository.rows(f"data/profiling/network/{card}_dgx/all_reduce.csv"))
        for model, name in (MODELS | STAND_INS).items():
            rows = repository.rows(f"data/profiling/compute/{card}/{name}/mlp.csv")
            for tp in sorted({int(row["num_tensor_parallel_workers"]) for row in rows}):
                own = [row for row in rows if int(row["num_tensor_parallel_workers"]) == tp]
                entries.append(entry(card, model, tp, own, links.get(tp, [])))
    head = [
        "# Times of a layer on a GPU in float16, without attention. Written by tools/layer_times.py.",
        "# `milliseconds` by `tokens` of a step; `all_reduce`: milliseconds of one of the two all-reduces per layer.",
        "",
        f'source = "github.com/microsoft/vidur, data/profiling, commit {commit[:12]} ({dated})"',
        'licence = "MIT License, Copyright (c) Microsoft Corporation"',
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(entries) + "\n"


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    TARGET.write_text(file_text(Repository(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
