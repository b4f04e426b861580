"""Cache key of a compiled forward pass, as text: models with the same key share the same code.

The key excludes weights, since the code reads the model's weights in place. It includes everything that determines the
traced graph: configuration, modules and their attributes other than tensors, shapes and layouts, this program's source,
versions, number of threads.
"""

from __future__ import annotations

import json
import platform
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
import transformers

from engine.model.loaded import LoadedModel

SOURCE = Path(__file__).parent
# Modules whose source determines the compiled code: traced modules, tracing, library building, and weight layout.
TRACED = """ahead_of_time attention build_libraries built_library compiled compiled_forward cpu_layout cpu_norms
early_rows forward_key graph_source merge_linears packed_linears
kernels/linear kernels/runtime kernels/tensors kernels/vectors"""
KNOWN = ("torch.", "transformers.", "engine.")  # packages whose version or source is in the key
PLAIN = (bool, int, float, str, type(None))


def forward_key(model: LoadedModel, options: dict[str, Any]) -> str | None:
    """Return the key, or None if the model has code or hooks that only this process knows."""
    modules = [(name, _facts(part)) for name, part in model.module.named_modules(remove_duplicate=False)]
    if any(facts is None for _, facts in modules):
        return None
    own = model.module
    tensors = [*own.named_parameters(remove_duplicate=False), *own.named_buffers(remove_duplicate=False)]
    config = model.module.config.to_dict()
    config.pop("_name_or_path", None)
    return json.dumps(
        {
            "versions": [torch.__version__, transformers.__version__, platform.python_version()],
            "source": _source(),
            "threads": torch.get_num_threads(),
            "options": {str(name): str(value) for name, value in options.items()},
            "keeps_logits": model.keeps_logits,
            "config": config,
            "modules": modules,
            "tensors": [(name, str(t.dtype), list(t.shape), list(t.stride())) for name, t in tensors],
        },
        sort_keys=True,
        default=str,
    )


def _facts(part: Any) -> list[Any] | None:
    """Return a module's class and its attributes that are neither tensor nor module; None for unknown code."""
    kind = type(part)
    if not f"{kind.__module__}.".startswith(KNOWN) or part._forward_hooks or part._forward_pre_hooks:
        return None
    found: list[Any] = [f"{kind.__module__}.{kind.__qualname__}"]
    for name, value in sorted(vars(part).items()):
        if isinstance(value, PLAIN):
            found.append([name, value])
        elif callable(value) and hasattr(value, "__qualname__"):
            if not f"{value.__module__}.".startswith(KNOWN):
                return None
            found.append([name, f"{value.__module__}.{value.__qualname__}"])
    return found


@cache
def _source() -> str:
    """Return a hash of the source that determines the compiled code."""
    digest = blake2b(digest_size=16)
    for name in TRACED.split():
        (file,) = (path for path in SOURCE.glob(f"{name}.*") if path.suffix in (".py", ".c", ".h"))
        digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
