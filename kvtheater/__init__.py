"""KV Theater for programs: a model with a real paged KV cache, stepped by hand, and the traces of its steps.

    from kvtheater import Engine, EngineConfig, SamplingParams, load_model

    with Engine(load_model("bundled"), EngineConfig(block_size=4)) as engine:
        engine.add_request("Once upon a time", SamplingParams(max_tokens=16))
        while engine.has_unfinished():
            print(engine.step().ops)

A few names and their types; what they are is in `engine`. In a notebook an opened trace and a watched run
show themselves. Only these names are promised to stay.
"""

from kvtheater._own import require_own_packages

require_own_packages()  # before anything below imports one of them

# ruff: noqa: E402
from engine import __version__
from engine.config import ConfigError, EngineConfig, SamplingParams
from engine.engine import Engine, NothingToDo
from engine.lab.watch import WatchError
from engine.model.capture import CaptureRequest
from engine.model.errors import ModelError
from engine.model.loaded import LoadedModel
from engine.model.loader import from_module, load_model
from engine.model.shipped import shipped_model
from engine.request import Request
from engine.request_spec import RequestError, RequestSpec
from engine.trace.codec import TraceFormatError
from engine.trace.log import TraceReader
from engine.trace.records import Capture, Header, StepRecord
from engine.trace.state import State
from kvtheater.notebook import Trace, WatchedRun, open_trace, watch_generate

__all__ = [
    "Capture",
    "CaptureRequest",
    "ConfigError",
    "Engine",
    "EngineConfig",
    "Header",
    "LoadedModel",
    "ModelError",
    "NothingToDo",
    "Request",
    "RequestError",
    "RequestSpec",
    "SamplingParams",
    "State",
    "StepRecord",
    "Trace",
    "TraceFormatError",
    "TraceReader",
    "WatchError",
    "WatchedRun",
    "__version__",
    "from_module",
    "load_model",
    "open_trace",
    "shipped_model",
    "watch_generate",
]
