"""Context manager that records `generate` as a trace. Each forward pass becomes a step.

The trace has the tokens of every forward pass, the top candidates of each sampled token, Q, K, V and attention weights
of every layer, and the duration of each pass. The K and V of a sequence stay allocated until the whole batch is done.
`generate` has no blocks and no scheduler: a DynamicCache is one tensor per layer that grows by a token per step,
recorded as blocks of one slot. Padding takes memory in that tensor, but is not in the trace. `engine.strategy` is
"dynamic".
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import torch
from torch import Tensor

from engine.model.attention import ProbeContext
from engine.model.attention_backend import AttentionCall
from engine.model.facts import model_facts
from engine.model.light_transformers import DynamicCache
from engine.model.naming import model_name
from engine.model.sampling import Sampler
from engine.model.tokenizer import Tokenizer
from engine.observe.hf_recorder.attention import WATCHED, attention_watched, softmax_weights
from engine.observe.hf_recorder.inputs import UnsupportedCall, cache_of, read_call
from engine.observe.hf_recorder.log import Generated, Pass, Row, write_log
from engine.trace.check import check
from engine.trace.records import AttentionRows, LayerCapture, Timing

MIB = 1 << 20
P = ParamSpec("P")


Hook = Callable[Concatenate["_Watcher", P], None]


class WatchError(ValueError):
    """The run cannot be recorded. The message gives the reason in one sentence."""


def _guarded(hook: Hook[P]) -> Hook[P]:
    """Restrict a hook to the recorded thread, and turn its errors into refusals: the user's call never fails."""

    def guarded(self: _Watcher, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if self.run is None or self.thread != threading.get_ident():
            return
        try:
            hook(self, *args, **kwargs)
        except UnsupportedCall as error:
            self.refuse(str(error))
        except Exception as error:
            self.refuse(f"a call of generate could not be recorded ({type(error).__name__}: {error})")

    return guarded


@contextmanager
def watch_generate(
    model: Any,
    tokenizer: Any = None,
    path: str | Path = "run.kvtrace",
    *,
    capture_bytes: int = 64 * MIB,
    num_logprobs: int = 5,
) -> Iterator[None]:
    """Record every `model.generate` inside the `with` block to the `.kvtrace` file `path`, written when the block ends.

    Generation is not changed on any thread. `tokenizer`: tokenizer of the model, for the texts of tokens; None: no
    texts. `capture_bytes`: budget for captured Q, K, V and attention weights, spent on the first steps.

    A call of `generate` that cannot be recorded runs unchanged, with a warning. Then the block ends with a WatchError
    that has the same message, and nothing is written.

    Raises:
        WatchError: the attention implementation is neither sdpa nor eager; a call cannot be recorded (`inputs.py`);
            nothing was generated; or the trace is inconsistent, which is a bug.
    """
    implementation = model.config.get_text_config()._attn_implementation
    if implementation not in WATCHED:
        raise WatchError(f"attention {implementation!r} cannot be recorded: load with attn_implementation='sdpa'")
    watcher = _Watcher(model, tokenizer, capture_bytes, num_logprobs)
    before = model.register_forward_pre_hook(watcher.before_forward, with_kwargs=True)
    after = model.register_forward_hook(watcher.after_forward, with_kwargs=True)
    model.generate = watcher.wrap(model.generate)
    try:
        with attention_watched(model, watcher.on_call):
            yield
    finally:
        del model.generate  # restores the class's method
        before.remove()
        after.remove()
        watcher.close()
        if watcher.runs and watcher.refusal is None:  # write the runs before an error
            write_log(watcher.facts(), watcher.tokenizer, watcher.runs, model, path)
    if watcher.refusal is not None:
        raise WatchError(watcher.refusal)
    if not watcher.runs:
        raise WatchError("nothing was generated inside the `with`, so there is no trace")
    for finding in check(path):
        raise WatchError(f"{path} contradicts itself and should not be trusted; please report it: {finding}")


class _Watcher:
    """Collects the data of hooks and attention calls, one pass at a time."""

    def __init__(self, model: Any, tokenizer: Any, capture_bytes: int, num_logprobs: int) -> None:
        self._model = model
        eos = getattr(model.generation_config, "eos_token_id", None)
        self.tokenizer = Tokenizer(tokenizer, eos) if tokenizer is not None else None
        self._remaining_bytes = capture_bytes
        self._num_logprobs = num_logprobs
        self._dtype = torch.float32 if next(model.parameters()).dtype == torch.float32 else torch.float16
        self._probe = ProbeContext()  # first call of each layer, from which the model's facts follow
        self.run: Generated | None = None  # the current call of generate
        self.thread = 0  # thread of the current call
        self.refusal: str | None = None  # reason why no trace will be written
        self._cache: Any = None  # cache object of the current call
        self._pass: Pass | None = None
        self._logits: Tensor | None = None  # [B, V] after the last pass; the sampled tokens are inputs of the next pass
        self._began = self._clock = time.perf_counter()
        self.runs: list[Generated] = []

    def facts(self) -> Any:
        """Derive the model's facts from the recorded calls."""
        self._probe.calls.sort(key=lambda entry: entry[0].layer)
        given = self._model.config._name_or_path
        name = model_name(given) if given else type(self._model).__name__
        return model_facts(self._model, name, next(self._model.parameters()).dtype, self._probe)

    # generate

    def wrap(self, generate: Any) -> Any:
        """Wrap `generate` to record its prompt and result."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            run = self._begin(args, kwargs)
            try:
                result = generate(*args, **kwargs)
                if run is not None:
                    self._record_last(result)
                return result
            except BaseException:
                if run is not None:
                    run.failed = True
                raise
            finally:
                if run is not None:
                    self._end(run)

        return watched

    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generated | None:
        """Begin a run. Returns None if it cannot be recorded."""
        if self.refusal is not None:
            return None  # already refused
        if self.run is not None:
            self.refuse("two calls of generate ran at once on one model; only sequential calls can be recorded")
            return None
        try:
            call = read_call(self._model, args, kwargs)
        except UnsupportedCall as error:
            self.refuse(str(error))
            return None
        self._logits = self._pass = self._cache = None
        self.thread = threading.get_ident()
        self.run = Generated(
            at=time.perf_counter() - self._began,
            rows=[],
            passes=[],
            max_tokens=call.max_tokens,
            eos_token_ids=call.eos_token_ids,
            prompts=call.prompts,
            width=call.width,
        )
        return self.run

    @_guarded
    def _record_last(self, result: Any) -> None:
        """Record the tokens sampled after the last pass."""
        sequences = result if isinstance(result, Tensor) else result.sequences
        self._record_sampled(sequences[:, -1])

    def _end(self, run: Generated) -> None:
        run.passes = [p for p in run.passes if p.timing is not None]  # drop a failed pass
        if self.run is run:  # neither refused nor closed
            self.run = self._pass = self._cache = None
            if run.passes:
                self.runs.append(run)

    def refuse(self, reason: str) -> None:
        """Stop recording; the first reason becomes the error of the `with`."""
        self.run = None
        if self.refusal is None:
            self.refusal = reason
            warnings.warn(f"{reason}; no trace is written", RuntimeWarning, stacklevel=4)

    def close(self) -> None:
        """Stop recording at the end of the `with`."""
        if self.run is not None:
            self.refuse("generate was still running on another thread when the `with` ended; join the thread inside it")

    # one forward pass

    @_guarded
    def before_forward(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Begin a pass: record its tokens and the tokens sampled after the last pass."""
        run = self.run
        assert run is not None
        cache = cache_of(kwargs)
        if cache is None or type(cache) is not DynamicCache:
            kind = type(cache).__name__ if cache is not None else "no cache"
            raise UnsupportedCall(f"generate ran with {kind}; only a DynamicCache, its default, can be recorded")
        input_ids: Tensor = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        num_before = int(cache.get_seq_length())
        last = run.passes[-1] if run.passes else None
        if num_before != (last.num_before + last.num_tokens if last else 0) or cache is not (self._cache or cache):
            raise UnsupportedCall("generate ran passes that do not continue one another, which cannot be recorded")
        self._cache = cache
        if not run.rows:
            copies = input_ids.shape[0] // len(run.prompts)
            prompts = [prompt for prompt in run.prompts for _ in range(copies)]  # num_return_sequences
            run.rows = [Row(prompt=prompt, tokens=list(prompt)) for prompt in prompts]
        elif num_before >= run.width:  # the prompt is complete
            self._record_sampled(input_ids[:, 0])
        self._pass = Pass(num_tokens=input_ids.shape[1], num_before=num_before)
        run.passes.append(self._pass)
        self._clock = time.perf_counter()

    @_guarded
    def on_call(self, call: AttentionCall, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
        """Capture a layer of the current pass."""
        if self._pass is None:
            return
        if all(known.layer != call.layer for known, *_ in self._probe.calls):
            shapes = (torch.Size((0, *t.shape[1:2], *t.shape[3:])) for t in (query, key, value))
            self._probe.calls.append((call, *shapes))  # type: ignore[arg-type]
        began = time.perf_counter()
        layer = self._layer(call, query, key, value, mask)
        if layer is not None:
            self._pass.layers.append(layer)
        else:
            self._pass.omitted = True
        self._clock += time.perf_counter() - began  # the capture is no part of the pass's duration

    @_guarded
    def after_forward(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """End a pass. Stores its logits until the sampled tokens are known."""
        if self._pass is None:
            return
        now = time.perf_counter()
        self._pass.timing = Timing(at=now - self._began, forward=now - self._clock)
        self._logits = output.logits[:, -1].float()

    def _record_sampled(self, token_ids: Tensor) -> None:
        """Record the tokens [B] sampled after the last pass, for the unfinished rows."""
        run, logits = self.run, self._logits
        assert run is not None and logits is not None, "logits of a previous pass"
        self._logits = None
        scored = Sampler.on(logits.device).score(logits, token_ids.tolist(), self._num_logprobs)
        for index, (row, sampled) in enumerate(zip(run.rows, scored, strict=True)):
            if row.ended:
                continue
            row.tokens.append(sampled.token_id)
            run.passes[-1].chosen[index] = sampled
            row.ended = sampled.token_id in run.eos_token_ids

    # arrays

    def _layer(
        self, call: AttentionCall, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> LayerCapture | None:
        """Return the packed arrays of the unfinished rows, or None if they exceed the remaining budget."""
        run, current = self.run, self._pass
        assert run is not None and current is not None
        num_tokens, num_keys = query.shape[2], key.shape[2]
        last = current.num_before + num_tokens  # number of columns of the batch, including padding
        unfinished = [
            index for index, row in enumerate(run.rows) if last - run.width + len(row.prompt) <= len(row.tokens)
        ]
        elements = sum(t.shape[1] * t.shape[3] for t in (query, key, value)) + query.shape[1] * num_keys
        if elements * num_tokens * len(unfinished) * self._dtype.itemsize > self._remaining_bytes:
            return None
        packed: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        rows = []
        for index in unfinished:
            padding = run.width - len(run.rows[index].prompt)
            first = max(0, padding - current.num_before)  # index of the first token of the pass that is not padding
            first_key = max(0, padding - (last - num_keys))  # index of the first key that is not padding
            for pieces, tensor in zip(packed, (query, key[:, :, -num_tokens:], value[:, :, -num_tokens:]), strict=True):
                pieces.append(tensor[index, :, first:].transpose(0, 1))
            visible = None
            if mask is not None:
                visible = mask[index if mask.shape[0] > 1 else 0][:, first:, first_key:num_keys]
            start = current.num_before + first - padding
            key_start = max(0, last - num_keys - padding)
            weights = softmax_weights(
                call, query[index, :, first:], key[index, :, first_key:], visible, start - key_start
            )
            rows.append(
                AttentionRows(
                    seq_id=index,
                    query_start=start,
                    key_start=key_start,
                    heads=list(range(query.shape[1])),
                    weights=self._array(weights),
                )
            )
        q, k, v = (self._array(torch.cat(pieces)) for pieces in packed)
        self._remaining_bytes -= sum(array.nbytes for array in (q, k, v, *(row.weights for row in rows)))
        return LayerCapture(layer=call.layer, q=q, k=k, v=v, rows=rows)

    def _array(self, tensor: Tensor) -> Any:
        return tensor.detach().to(self._dtype).cpu().contiguous().numpy()
