"""Record the same requests with this engine and with vLLM: `python -m tools.record_beside --python ENV/bin/python`.

ENV is an environment with vLLM; both engines have equal settings. Without `--python`, only this engine's recording is
written, which each release does, because recordings of earlier versions cannot be forked.
`tests/unit/recordings/test_beside.py` compares both operation by operation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from app.ground.paths import static_dir
from app.recordings.shelf import SUFFIX, Card
from engine.config import EngineConfig
from engine.lab.beside import BesideRequest, explicit_config, serve_here, serve_vllm
from engine.model.loader import load_model
from engine.model.shipped import BUNDLED
from engine.trace.check import check

RIVER = (
    "Once upon a time there was a moon over the river, and the river was wide, and nobody had crossed it before the "
)
MOON = "春江潮水连海平，海上明月共潮生。滟滟随波千万里，何处春江无月明。"
REQUESTS = [
    BesideRequest(request_id="spring", prompt=RIVER + "spring came with boats and lanterns.\n", max_tokens=36),
    BesideRequest(request_id="winter", prompt=RIVER + "winter came with its snow.\n", max_tokens=28),
    BesideRequest(request_id="moon", prompt=MOON + "江流宛转绕芳甸，月照花林皆似霰。", max_tokens=36, at_step=2),
    BesideRequest(request_id="frost", prompt=MOON + "空里流霜不觉飞，汀上白沙看不见。", max_tokens=32, at_step=4),
    BesideRequest(
        request_id="again", prompt=RIVER + "spring came with boats and lanterns.\n", max_tokens=12, at_step=44
    ),
]
CONFIG = EngineConfig(
    block_size=32,  # the smallest that vLLM supports on a CPU
    num_blocks=7,
    max_num_seqs=4,
    max_num_batched_tokens=64,
    num_logprobs=2,
)
COMMAND = "python -m tools.record_beside --python ENV/bin/python"
TEXT = {
    "en": "Equal requests and settings, with a pool that is too small for all. Compare shows both runs.",
    "zh": "同样的请求、同样的设置，块池装不下全部请求。“比较”把这一次运行和另一次并排。",
}
CARDS = {
    "beside-ours": Card(
        title={"en": "Comparison with vLLM: this engine", "zh": "与 vLLM 并排：我们的引擎"},
        text=TEXT,
        tags=["vLLM"],
        command=COMMAND,
    ),
    "beside-vllm": Card(
        title={"en": "Comparison with vLLM: vLLM", "zh": "与我们并排：vLLM"}, text=TEXT, tags=["vLLM"], command=COMMAND
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", type=Path, help="interpreter of an environment with vLLM (default: record only this engine)"
    )
    arguments = parser.parse_args()
    folder, model = static_dir() / "recordings", load_model(BUNDLED)
    config = explicit_config(CONFIG, model)
    paths = {name: folder / f"{name}{SUFFIX}" for name in CARDS}
    requests = [msgspec.structs.replace(one, ignore_eos=True) for one in REQUESTS]
    if arguments.python:
        serve_vllm(arguments.python, model, config, requests, paths["beside-vllm"], 0.3)
    paths["beside-ours"].unlink(missing_ok=True)
    serve_here(model, config, requests, paths["beside-ours"])
    for name, path in paths.items():
        text = msgspec.json.format(msgspec.json.encode(CARDS[name]), indent=2)
        path.with_suffix(".json").write_bytes(text + b"\n")
        findings = list(check(path))
        print(f"{path.name}: {path.stat().st_size:,} bytes" + "".join(f"\n  {finding}" for finding in findings))


if __name__ == "__main__":
    main()
