"""Python API of KV Theater: an engine with a paged KV cache that runs step by step, and the traces of its steps.

    from kvtheater import Engine, EngineConfig, SamplingParams, load_model

    with Engine(load_model("bundled"), EngineConfig(block_size=4)) as engine:
        engine.add_request("Once upon a time", SamplingParams(max_tokens=16))
        while engine.has_unfinished():
            print(engine.step().ops)

The names are defined in `engine`. They are imported on first use, because torch and transformers take seconds to import
and reading a trace needs neither. A notebook displays an opened trace and a watched run. Only these names are stable.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvtheater._own import require_own_packages

require_own_packages()  # before any import of these packages

if TYPE_CHECKING:
    from engine import __version__ as __version__
    from engine.config import ConfigError as ConfigError
    from engine.config import EngineConfig as EngineConfig
    from engine.config import SamplingParams as SamplingParams
    from engine.engine import Engine as Engine
    from engine.engine import NothingToDo as NothingToDo
    from engine.model.capture import CaptureRequest as CaptureRequest
    from engine.model.errors import ModelError as ModelError
    from engine.model.loaded import LoadedModel as LoadedModel
    from engine.model.loader import from_module as from_module
    from engine.model.loader import load_model as load_model
    from engine.model.shipped import shipped_model as shipped_model
    from engine.observe.hf_recorder import WatchError as WatchError
    from engine.observe.vllm_recorder import watched as watched
    from engine.requests.request import Request as Request
    from engine.requests.request_spec import RequestError as RequestError
    from engine.requests.request_spec import RequestSpec as RequestSpec
    from engine.trace import compare as _compare
    from engine.trace.codec import TraceFormatError as TraceFormatError
    from engine.trace.codec import decode as decode
    from engine.trace.log import TraceReader as TraceReader
    from engine.trace.records import Capture as Capture
    from engine.trace.records import Header as Header
    from engine.trace.records import StepRecord as StepRecord
    from engine.trace.state import State as State
    from kvtheater.notebook import (
        Trace as Trace,
    )
    from kvtheater.notebook import (
        WatchedRun as WatchedRun,
    )
    from kvtheater.notebook import (
        open_trace as open_trace,
    )
    from kvtheater.notebook import (
        watch_generate as watch_generate,
    )
    from kvtheater.shown_page import ShownPage as ShownPage
    from kvtheater.shown_page import show as show

    same_run = _compare.same

NAMES = {
    "engine": "__version__",
    "engine.config": "ConfigError EngineConfig SamplingParams",
    "engine.engine": "Engine NothingToDo",
    "engine.observe.hf_recorder": "WatchError",
    "engine.model.capture": "CaptureRequest",
    "engine.model.errors": "ModelError",
    "engine.model.loaded": "LoadedModel",
    "engine.model.loader": "from_module load_model",
    "engine.model.shipped": "shipped_model",
    "engine.requests.request": "Request",
    "engine.requests.request_spec": "RequestError RequestSpec",
    "engine.trace.codec": "TraceFormatError decode",
    "engine.trace.compare": "same_run",
    "engine.trace.log": "TraceReader",
    "engine.trace.records": "Capture Header StepRecord",
    "engine.trace.state": "State",
    "engine.observe.vllm_recorder": "watched",
    "kvtheater.notebook": "Trace WatchedRun open_trace watch_generate",
    "kvtheater.shown_page": "ShownPage show",
}
DEFINED_AS = {"same_run": "same"}  # names that differ in the defining module
MODULES = {name: module for module, names in NAMES.items() for name in names.split()}
__all__ = sorted(MODULES)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'kvtheater' has no attribute {name!r}")
    return getattr(import_module(MODULES[name]), DEFINED_AS.get(name, name))


def __dir__() -> list[str]:
    return __all__
