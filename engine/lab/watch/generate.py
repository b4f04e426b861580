"""The context manager: what `generate` computes becomes steps, and the steps a trace.

A trace of `generate` has the tokens of every forward pass, the alternatives to each chosen one, Q, K, V and the
attention of every layer, how long a pass took, and how long a sequence's K and V stay (until the whole batch is done).
It has no blocks and no scheduler, because `generate` has none. A DynamicCache is one tensor a layer, which grows by a
token a step; the trace tells each token's place as a block of one slot. The padding of a batch takes room in that
tensor, but is not in the trace. `engine.strategy` is "dynamic".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.lab.watch.attention import WATCHED, attention_watched, softmax_weights
from engine.lab.watch.log import Generated, Pass, Row, write_log
from engine.model.attention import ProbeContext
from engine.model.attention_backend import AttentionCall
from engine.model.facts import model_facts
from engine.model.light_transformers import DynamicCache
from engine.model.naming import model_name
from engine.model.sampling import Sampler
from engine.model.tokenizer import Tokenizer
from engine.trace.records import AttentionRows, LayerCapture, Timing

MIB = 1 << 20


class WatchError(ValueError):
    """A run that cannot be written down; one sentence that says why."""


@contextmanager
def watch_generate(
    model: Any,
    tokenizer: Any = None,
    path: str | Path = "run.kvtrace",
    *,
    capture_bytes: int = 64 * MIB,
    num_logprobs: int = 5,
) -> Iterator[None]:
    """Write a `.kvtrace` of every `model.generate` inside the `with` to `path`, when the `with` ends.

    Generation itself is not changed. `tokenizer`: of the model, for the tokens' texts; None = they have none.
    `capture_bytes`: so much of Q, K, V and attention is kept, the first steps first.

    Raises:
        WatchError: another attention than sdpa and eager, another cache than DynamicCache, beams, or nothing generated.
    """
    implementation = model.config.get_text_config()._attn_implementation
    if implementation not in WATCHED:
        raise WatchError(f"attention {implementation!r} cannot be watched: load with attn_implementation='sdpa'")
    watcher = _Watcher(model, tokenizer, capture_bytes, num_logprobs)
    before = model.register_forward_pre_hook(watcher.before_forward, with_kwargs=True)
    after = model.register_forward_hook(watcher.after_forward, with_kwargs=True)
    model.generate = watcher.wrap(model.generate)
    try:
        with attention_watched(model, watcher.look):
            yield
    finally:
        del model.generate  # the class's own is there again
        before.remove()
        after.remove()
        if watcher.runs:  # what came before an error is worth keeping
            write_log(watcher.facts(), watcher.tokenizer, watcher.runs, model, path)
    if not watcher.runs:
        raise WatchError("nothing was generated inside the `with`, so there is no trace")


class _Watcher:
    """What hooks and attention calls tell, put together a pass at a time."""

    def __init__(self, model: Any, tokenizer: Any, capture_bytes: int, num_logprobs: int) -> None:
        self._model = model
        eos = getattr(model.generation_config, "eos_token_id", None)
        self.tokenizer = Tokenizer(tokenizer, eos) if tokenizer is not None else None
        self._left = capture_bytes
        self._num_logprobs = num_logprobs
        self._dtype = torch.float32 if next(model.parameters()).dtype == torch.float32 else torch.float16
        self._probe = ProbeContext()  # the first call of each layer: what the model's facts are read from
        self._run: Generated | None = None  # under way
        self._pass: Pass | None = None
        self._logits: Tensor | None = None  # [B, V] after the last pass: its tokens are known with the next
        self._began = self._clock = time.perf_counter()
        self.runs: list[Generated] = []

    def facts(self) -> Any:
        """The model's facts, from the calls that were watched."""
        self._probe.calls.sort(key=lambda entry: entry[0].layer)
        given = self._model.config._name_or_path
        return model_facts(self._model, model_name(given) if given else type(self._model).__name__, self._probe)

    # generate

    def wrap(self, generate: Any) -> Any:
        """`generate`, whose prompt and result are noted."""

        def watched(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
            config = kwargs.get("generation_config") or self._model.generation_config
            asked = {name: kwargs.get(name, getattr(config, name, None)) for name in ("num_beams", "eos_token_id")}
            if (asked["num_beams"] or 1) > 1 or kwargs.get("assistant_model") is not None:
                raise WatchError("beams and assisted generation move K and V about in the cache; they are not watched")
            prompt = inputs if inputs is not None else kwargs["input_ids"]
            mask = kwargs.get("attention_mask")
            lengths = mask.sum(-1).tolist() if mask is not None else [prompt.shape[1]] * prompt.shape[0]
            eos = asked["eos_token_id"]
            limit = kwargs.get("max_new_tokens") or getattr(config, "max_new_tokens", None)
            if limit is None:
                total = kwargs.get("max_length") or getattr(config, "max_length", None) or 20
                limit = max(1, total - prompt.shape[1])
            self._run = Generated(
                at=time.perf_counter() - self._began,
                rows=[],
                passes=[],
                max_tokens=int(limit),
                eos_token_ids={eos} if isinstance(eos, int) else set(eos or ()),
                prompts=[row[len(row) - n :].tolist() for row, n in zip(prompt, lengths, strict=True)],
                width=prompt.shape[1],
            )
            try:
                result = generate(inputs, *args, **kwargs)
                sequences = result if isinstance(result, Tensor) else result.sequences
                self._settle(sequences[:, -1])
            except BaseException:
                self._logits = None
                self._run.failed = True
                raise
            finally:
                self._run.passes = [p for p in self._run.passes if p.timing is not None]  # a pass that failed is none
                if self._run.passes:
                    self.runs.append(self._run)
                self._run = self._pass = None
            return result

        return watched

    # one forward pass

    def before_forward(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A pass begins: whose tokens it computes, and what was chosen after the last."""
        run = self._run
        if run is None:
            return
        cache = kwargs.get("past_key_values")
        if cache is None or type(cache) is not DynamicCache:
            kind = type(cache).__name__ if cache is not None else "no cache"
            raise WatchError(f"generate ran with {kind}; what is watched is a DynamicCache, its default")
        input_ids: Tensor = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        num_before = int(cache.get_seq_length())
        if not run.rows:
            copies = input_ids.shape[0] // len(run.prompts)
            prompts = [prompt for prompt in run.prompts for _ in range(copies)]  # num_return_sequences
            run.rows = [Row(prompt=prompt, tokens=list(prompt)) for prompt in prompts]
        elif num_before >= run.width:  # else another piece of the prompt
            self._settle(input_ids[:, 0])
        self._pass = Pass(num_tokens=input_ids.shape[1], num_before=num_before)
        run.passes.append(self._pass)
        self._clock = time.perf_counter()

    def look(self, call: AttentionCall, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
        """One layer of the pass under way."""
        if self._run is None or self._pass is None:
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
        self._clock += time.perf_counter() - began  # looking is not the model's time

    def after_forward(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """The pass is over: its logits, until the tokens chosen from them are known."""
        if self._run is None or self._pass is None:
            return
        now = time.perf_counter()
        self._pass.timing = Timing(at=now - self._began, forward=now - self._clock)
        self._logits = output.logits[:, -1].float()

    def _settle(self, token_ids: Tensor) -> None:
        """The tokens [B] that were chosen after the last pass, for the rows that still go on."""
        run, logits = self._run, self._logits
        assert run is not None and logits is not None, "a pass came before"
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
        """The arrays of the rows that go on, packed; None where they do not fit what is left of the budget."""
        run, this = self._run, self._pass
        assert run is not None and this is not None
        num_tokens, num_keys = query.shape[2], key.shape[2]
        last = this.num_before + num_tokens  # columns of the batch so far, padding included
        going = [index for index, row in enumerate(run.rows) if last - run.width + len(row.prompt) <= len(row.tokens)]
        elements = sum(t.shape[1] * t.shape[3] for t in (query, key, value)) + query.shape[1] * num_keys
        if elements * num_tokens * len(going) * self._dtype.itemsize > self._left:
            return None
        packed: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        rows = []
        for index in going:
            padding = run.width - len(run.rows[index].prompt)
            first = max(0, padding - this.num_before)  # of the pass's tokens, the first that is no padding
            hidden = max(0, padding - (last - num_keys))  # of the keys, likewise
            for kept, tensor in zip(packed, (query, key[:, :, -num_tokens:], value[:, :, -num_tokens:]), strict=True):
                kept.append(tensor[index, :, first:].transpose(0, 1))
            seen = None
            if mask is not None:
                seen = mask[index if mask.shape[0] > 1 else 0][:, first:, hidden:num_keys]
            start = this.num_before + first - padding
            key_start = max(0, last - num_keys - padding)
            weights = softmax_weights(call, query[index, :, first:], key[index, :, hidden:], seen, start - key_start)
            rows.append(
                AttentionRows(
                    seq_id=index,
                    query_start=start,
                    key_start=key_start,
                    heads=list(range(query.shape[1])),
                    weights=self._array(weights),
                )
            )
        q, k, v = (self._array(torch.cat(kept)) for kept in packed)
        self._left -= sum(array.nbytes for array in (q, k, v, *(row.weights for row in rows)))
        return LayerCapture(layer=call.layer, q=q, k=k, v=v, rows=rows)

    def _array(self, tensor: Tensor) -> Any:
        return tensor.detach().to(self._dtype).cpu().contiguous().numpy()
