"""Record of a run's machine, versions and command, without paths."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import tokenizers
import torch
import transformers

from engine.system.host import processor_name

RUN = "run.json"
PATHS = {"--corpus": "CORPUS", "--out": "DIR", "--tokenizer": "engine/model/bundled", "--export": "FOLDER"}


def command() -> str:
    """Return the command line with placeholders for paths."""
    words, hidden = ["python -m training.train"], ""
    for word in sys.argv[1:]:
        words.append(hidden or word)
        hidden = PATHS.get(word, "")
    return " ".join(words)


def machine(device: torch.device) -> str:
    """Return the name of the GPU or of the CPU."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return processor_name()


def save_record(folder: Path, parameters: int, device: torch.device) -> None:
    record = {
        "command": command(),
        "machine": machine(device),
        "cores": os.cpu_count(),
        "parameters": parameters,
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
    }
    (folder / RUN).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
