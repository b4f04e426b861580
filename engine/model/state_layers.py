"""Layers with a recurrent state instead of keys and values, within a packed step.

    packed row    a0 a1 a2 a3 | b7 | c2          one row of all sequences, which attention reads directly
    state module  [a0 a1 a2 a3]  [b7]            runs each slice of several tokens separately, from its sequence's state
                                 [c2]            on, and all sequences with one token together, with stacked states

A linear attention, a Mamba mixer or a short convolution computes along the row, so the row must not contain tokens of
two sequences. transformers passes such a module a cache with its state, which it accesses with `update_conv_state`,
`update_recurrent_state` and related methods. A trial run (`find_states`) records which module of each layer calls them,
which of its arguments have a row of tokens, and the shapes of the state. Then the module's `forward` is replaced:
within a step it runs once per segment of the row, with a cache layer that has the states of the segment's sequences,
and the new states are written to the pool (`cache.state_store`). Outside a step the module runs unchanged.

transformers' interface to states is used only in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from engine.cache.state_store import StateShape, StateStore
from engine.model.attention import current
from engine.model.errors import ModelError
from engine.model.light_transformers import Cache, DynamicCache, LinearAttentionLayer
from engine.model.state_segments import RowSegment
from engine.options.refusal import joined, sentence

Key = int | str  # position or name of an argument
Rows = Any  # dimension of a value's tokens; None: it has none; a tuple of these for a tuple
CACHE_ARGUMENTS = ("cache", "past_key_values", "cache_params")  # names in several versions; the first since 5.24
TENSORS = ("conv_states", "recurrent_states")  # attributes of transformers' cache layer, by state index


class StateTensor(NamedTuple):
    """Tensor of a layer's state."""

    kind: str  # one of `TENSORS`
    number: int  # transformers' `state_idx`
    shape: StateShape


@dataclass
class StateModule:
    """Module that reads and writes the state of its layer."""

    path: str
    layer: int  # transformers' number of its layer
    cache_key: Key  # key of the cache argument
    arguments: dict[Key, Rows]  # arguments with a row of tokens
    result: Rows
    tensors: list[StateTensor]
    num_states: int  # number of states of its layer
    kernel_sizes: dict[int, int | None] = field(default_factory=dict)
    has_previous: dict[int, bool] = field(default_factory=dict)  # transformers' flag after a run
    first: int = 0  # index of its first tensor in the store


@dataclass
class StateLayers:
    """Modules with a state, in order of execution."""

    modules: list[StateModule]
    one_by_one: bool = False  # whether modules that continue from a state process one token at a time

    @property
    def shapes(self) -> list[StateShape]:
        """Shapes of the tensors of a sequence's state, in the order of the store."""
        return [tensor.shape for module in self.modules for tensor in module.tensors]

    @property
    def num_bytes(self) -> int:
        """Size in bytes of a sequence's state in all layers."""
        return sum(shape.num_bytes for shape in self.shapes)

    @property
    def layers(self) -> list[int]:
        """Layers with a state by transformers' numbers, in order."""
        return sorted({module.layer for module in self.modules})


class StateRefused(ModelError):
    """The states of a model are not supported in a packed step. The message is the end of a sentence."""


def cache_layers(config: Any) -> list[Any]:
    """Return the layers of transformers' cache for a configuration."""
    layers: list[Any] = DynamicCache(config=config.get_text_config()).layers
    return layers


def has_state(layer: Any) -> bool:
    """Return whether a layer of transformers' cache has a state."""
    return hasattr(layer, TENSORS[0])


def has_keys(layer: Any) -> bool:
    """Return whether a layer of transformers' cache has keys and values."""
    return hasattr(layer, "get_mask_sizes")


class _CacheObserver:
    """Observer of the running modules that records which of them use the cache."""

    def __init__(self, module: nn.Module, cache: Any, num_tokens: int) -> None:
        self._cache, self._num_tokens = cache, num_tokens
        self._stack: list[tuple[str, dict[Key, Any]]] = []
        self._module = module
        self.attending: set[str] = set()  # paths of modules that contain an attention layer
        self.calls: dict[tuple[int, int], dict[str, None]] = {}  # (layer, state index) -> paths
        self.arguments: dict[str, dict[Key, Any]] = {}
        self.results: dict[str, Rows] = {}

    def record_call(self, layer: int, state_idx: int) -> None:
        path, arguments = self._stack[-1]
        self.calls.setdefault((layer, state_idx), {})[path] = None
        self.arguments[path] = arguments

    def attend(self) -> None:
        """Record that a layer attends within the running modules."""
        self.attending.update(path for path, _ in self._stack)

    @contextmanager
    def watching(self) -> Iterator[None]:
        handles = []
        for path, module in self._module.named_modules():

            def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: str = path) -> None:
                self._stack.append((path, _named(args, kwargs)))

            def after(_: nn.Module, args: Any, kwargs: Any, out: Any, path: str = path) -> None:
                self._stack.pop()
                if path in self.arguments:
                    self.results[path] = _rows(out, self._num_tokens)

            handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
            handles.append(module.register_forward_hook(after, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[Key, Any]:
    named: dict[Key, Any] = dict(enumerate(args))
    named.update(kwargs)
    return named


def _rows(value: Any, num_tokens: int) -> Rows:
    if isinstance(value, Tensor):
        return next((dim for dim in range(1, value.dim()) if value.shape[dim] == num_tokens), None)
    if isinstance(value, (tuple, list)):
        found = tuple(_rows(item, num_tokens) for item in value)
        return found if any(item is not None for item in found) else None
    return None


def cache_argument(parameters: Sequence[str]) -> str | None:
    """Return the name of a model's cache argument."""
    return next((name for name in CACHE_ARGUMENTS if name in parameters), None)


def find_states(module: Any, num_tokens: int, run: Callable[[Any, Callable[[], None]], None]) -> StateLayers | None:
    """Return the modules of a model that have a state, or None if there are none.

    `run(cache, attend)` runs the model on `num_tokens` tokens with the cache, and calls `attend` in each attention
    layer.

    Raises:
        StateRefused: these modules cannot be run separately from the rest of their layer.
    """
    layers = cache_layers(module.config)
    with_state = [index for index, layer in enumerate(layers) if has_state(layer)]
    if not with_state:
        return None
    cache: Any = DynamicCache(config=module.config.get_text_config())
    observer = _CacheObserver(module, cache, num_tokens)
    for name in ("update_conv_state", "update_recurrent_state", "get_conv_state", "get_recurrent_state"):
        if hasattr(cache, name):  # before transformers 5.21 modules read a state from its layer
            setattr(cache, name, _recorded(getattr(cache, name), observer, name))
    with observer.watching():
        run(cache, observer.attend)
    owners: dict[str, list[tuple[int, int]]] = {}
    for (layer, index), paths in observer.calls.items():
        if len(paths) > 1:
            raise StateRefused(sentence("state.shared", layer=layer, names=joined(paths)))
        owners.setdefault(next(iter(paths)), []).append((layer, index))
    unused = [index for index in with_state if not any(layer == index for layer, _ in observer.calls)]
    if unused:
        raise StateRefused(sentence("state.elsewhere", layer=unused[0]))
    found, first = [], 0
    for path, states in owners.items():
        state_module = _state_module(path, states, cache, observer)
        state_module.first, first = first, first + len(state_module.tensors)
        found.append(state_module)
    return StateLayers(found)


def _recorded(method: Callable[..., Any], observer: _CacheObserver, name: str) -> Callable[..., Any]:
    place = 1 if name.startswith("update") else 0

    def call(*args: Any, **kwargs: Any) -> Any:
        layer = kwargs["layer_idx"] if "layer_idx" in kwargs else args[place]
        index = kwargs.get("state_idx", args[place + 1] if len(args) > place + 1 else 0)
        observer.record_call(layer, index)
        return method(*args, **kwargs)

    return call


def _state_module(path: str, states: list[tuple[int, int]], cache: Any, observer: _CacheObserver) -> StateModule:
    layer = states[0][0]
    if any(other != layer for other, _ in states):
        raise StateRefused(sentence("state.several", path=path))
    if path in observer.attending:
        raise StateRefused(sentence("state.within", layer=layer))
    arguments = observer.arguments[path]
    keys = [key for key, value in arguments.items() if value is cache]
    result = observer.results.get(path)
    if len(keys) != 1 or result is None:
        raise StateRefused(sentence("state.no_cache", path=path))
    cached, tensors = cache.layers[layer], list[StateTensor]()
    for _, index in sorted(states):
        for kind in TENSORS:
            tensor = getattr(cached, kind).get(index)
            if tensor is not None:
                if tensor.shape[0] != 1:
                    raise StateRefused(sentence("state.shape", shape=list(tensor.shape), layer=layer))
                tensors.append(StateTensor(kind, index, StateShape(tuple(tensor.shape[1:]), tensor.dtype)))
    rows = {key: found for key, value in arguments.items() if (found := _rows(value, observer._num_tokens)) is not None}
    return StateModule(
        path,
        layer,
        keys[0],
        rows,
        result,
        tensors,
        cached.number_of_states,
        dict(cached.conv_kernel_size),
        dict(cached.has_previous_state),
    )


@dataclass
class StateStep:
    """States of a step: the segments of the row that run separately, and their blocks."""

    store: StateStore
    segments: list[RowSegment]

    def run(
        self, module: StateModule, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a module on all segments; return its result for the complete row."""
        arguments = _named(args, kwargs)
        results = [self._run_segment(module, forward, arguments, segment) for segment in self.segments]
        return _joined(module.result, results, self.segments)

    def _run_segment(
        self, module: StateModule, forward: Callable[..., Any], arguments: dict[Key, Any], segment: RowSegment
    ) -> Any:
        args = {key: _segment_of(value, module.arguments.get(key), segment) for key, value in arguments.items()}
        layer = self._layer(module, segment)
        # the module accesses its layer by number
        args[module.cache_key] = Cache(layers=[*[None] * module.layer, layer])
        out = forward(
            *[args[i] for i in range(len(args)) if i in args], **{k: v for k, v in args.items() if isinstance(k, str)}
        )
        for place, tensor in enumerate(module.tensors, module.first):
            self.store.tensors[place].index_copy_(0, segment.write, getattr(layer, tensor.kind)[tensor.number])
        return out

    def _layer(self, module: StateModule, segment: RowSegment) -> Any:
        """Return transformers' cache layer with the states before a segment."""
        layer: Any = LinearAttentionLayer(number_of_states=module.num_states)
        for place, tensor in enumerate(module.tensors, module.first):
            pool = self.store.tensors[place]
            state = pool.new_zeros((1, *pool.shape[1:])) if segment.read is None else pool.index_select(0, segment.read)
            getattr(layer, tensor.kind)[tensor.number] = state
            getattr(layer, f"is_{tensor.kind}_initialized")[tensor.number] = True
            layer.device, layer.dtype = state.device, state.dtype
        layer.conv_kernel_size.update(module.kernel_sizes)
        if segment.read is not None:
            layer.has_previous_state.update(module.has_previous)
        return layer


def _segment_of(value: Any, rows: Rows, segment: RowSegment) -> Any:
    """Return the rows of an argument that belong to a segment."""
    if rows is None:
        return value
    if isinstance(rows, tuple):
        return type(value)(_segment_of(item, own, segment) for item, own in zip(value, rows, strict=True))
    if segment.rows is None:
        return value.narrow(rows, segment.begin, segment.length)
    return value.index_select(rows, segment.rows).transpose(rows - 1, rows)  # [1, n, ...] -> [n, 1, ...]


def _joined(rows: Rows, results: list[Any], segments: list[RowSegment]) -> Any:
    """Join the results of all segments into one row."""
    if rows is None:
        return results[-1]
    if isinstance(rows, tuple):
        return tuple(_joined(own, [result[i] for result in results], segments) for i, own in enumerate(rows))
    found = [
        x if segment.rows is None else x.transpose(rows - 1, rows) for x, segment in zip(results, segments, strict=True)
    ]
    if len(segments) == 1:
        return found[0]
    shape = list(found[0].shape)
    shape[rows] = sum(segment.length for segment in segments)
    out = found[0].new_empty(shape)
    for x, segment in zip(found, segments, strict=True):
        if segment.rows is None:
            out.narrow(rows, segment.begin, segment.length).copy_(x)
        else:
            out.index_copy_(rows, segment.rows, x)
    return out


def install(module: nn.Module, states: StateLayers) -> None:
    """Patch the modules with a state to run segment by segment within a step."""
    for state_module in states.modules:
        target: Any = module.get_submodule(state_module.path)
        target.forward = _by_segments(state_module, target.forward)


def _by_segments(module: StateModule, forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        step: StateStep | None = getattr(current(), "states", None)
        return forward(*args, **kwargs) if step is None else step.run(module, forward, args, kwargs)

    return run
