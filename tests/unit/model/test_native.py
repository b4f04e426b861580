"""C functions for logits, compared with torch, and the behaviour without a compiler."""

import logging
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model import native
from engine.model.loader import load_model
from engine.model.native import NoCompiler, build_logits, build_native, logit_kernels
from engine.model.sampling import Sampler, SamplingRow, _logsumexp, _topk

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@needs_compiler
@pytest.mark.parametrize("width", [1, 15, 16, 63, 64, 65, 1000, 8192])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_native_logit_figures_equal_torchs(rows: int, width: int) -> None:
    logits = torch.randn((rows, width), generator=torch.Generator().manual_seed(width)) * 8
    count = min(20, width)
    total, found_ids, found_logprobs = build_logits().summarize(logits, count)
    torch.testing.assert_close(total, torch.logsumexp(logits, -1), rtol=1e-6, atol=1e-6)
    ids, logprobs = torch.tensor(found_ids), torch.tensor(found_logprobs)
    assert torch.equal(logits.gather(1, ids), torch.topk(logits, count).values)
    assert torch.equal(logprobs, logits.gather(1, ids) - total[:, None])


@needs_compiler
def test_equal_logits_are_ordered_by_id() -> None:
    """Four of 300 logits are 7 and the others 0, which follow in the order of their ids."""
    logits = torch.zeros(1, 300)
    logits[0, [3, 64, 65, 200]] = 7
    _, ids, _ = build_logits().summarize(logits, 9)
    assert ids == [[3, 64, 65, 200, 0, 1, 2, 4, 5]]


@needs_compiler
@pytest.mark.parametrize("wrong", [float("nan"), float("-inf")])
def test_invalid_logits_give_distinct_valid_token_ids(wrong: float) -> None:
    """Following an overflow in the model, logits can be NaN or infinite."""
    logits = torch.full((2, 200), wrong)
    logits[1, 77] = 1
    for ids in build_logits().summarize(logits, 70)[1]:
        assert len(set(ids)) == 70 and all(0 <= token < 200 for token in ids)


@needs_compiler
@pytest.mark.parametrize("num_logprobs", [0, 5])
def test_a_sampler_with_native_functions_gives_the_same_outputs(num_logprobs: int) -> None:
    logits = torch.randn((4, 8192), generator=torch.Generator().manual_seed(1))
    rows = [SamplingRow(SamplingParams(), None, [])] * 4
    plain, fast = Sampler(), Sampler()
    fast.kernels = build_logits()
    for one, other in zip(
        plain.sample(logits, rows, num_logprobs), fast.sample(logits, rows, num_logprobs), strict=True
    ):
        assert one.token_id == other.token_id and one.logprob == pytest.approx(other.logprob, abs=1e-5)
        assert one.top_ids == other.top_ids and one.top_logprobs == pytest.approx(other.top_logprobs, abs=1e-5)


@pytest.mark.parametrize("width", [64, 8192, 8190])
def test_grouped_topk_and_logsumexp_equal_torchs(width: int) -> None:
    logits = torch.randn((3, width), generator=torch.Generator().manual_seed(2))
    values, ids = _topk(logits, 6)
    expected = torch.topk(logits, 6)
    assert torch.equal(values, expected.values) and torch.equal(ids, expected.indices)
    torch.testing.assert_close(_logsumexp(logits), torch.logsumexp(logits, -1, keepdim=True))


def test_a_missing_compiler_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NoCompiler, match=r"^no C compiler was found$"):
        build_native.__wrapped__()
    (tmp_path / "cc").write_text("#!/bin/sh\necho 'logits.c: what is this?' >&2\nexit 1\n")
    (tmp_path / "cc").chmod(0o755)
    with pytest.raises(NoCompiler, match=r"cannot compile logits\.c: logits\.c: what is this\?$"):
        build_logits.__wrapped__()
    with pytest.raises(NoCompiler, match=r"cannot compile attention\.c, attend\.c, capture\.c: "):
        build_native.__wrapped__()


@needs_compiler
def test_concurrent_builds_compile_the_functions_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Given a first start, a server, its compiling process and the child of that process need the functions at once."""
    compiled = list[Path]()

    def compile_slowly(names: tuple[str, ...], compiler: str, key: str) -> Any:
        compiled.append(tmp_path)
        time.sleep(0.2)
        return compile_functions(names, compiler, key)

    compile_functions = native._compiled
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_compiled", compile_slowly)
    with ThreadPoolExecutor(3) as pool:
        found = [pool.submit(native._built, "logits.c") for _ in range(3)]
    assert len(compiled) == 1 and all(one.result().summarize_logits for one in found)
    assert not list(tmp_path.rglob("*.lock"))


def test_without_a_compiler_the_same_tokens_are_chosen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The missing compiler is reported once, and every engine continues with tensor operations."""

    def generated() -> list[tuple[int, list[int]]]:
        with Engine(load_model(), EngineConfig(num_blocks=16)) as engine:
            engine.add_request([300, 301, 302], SamplingParams(max_tokens=5, ignore_eos=True))
            records = [engine.step() for _ in range(5)]
        return [(o.token_id, [c.token_id for c in o.top]) for record in records for o in record.outputs]

    expected = generated()
    logit_kernels.cache_clear()
    build_logits.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    try:
        with caplog.at_level(logging.WARNING, logger="engine"):
            assert generated() == expected and generated() == expected
    finally:
        logit_kernels.cache_clear()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "tensor operations compute the summary statistics of logits, because their C functions are missing: "
        "no C compiler was found"
    ]
