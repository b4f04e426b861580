"""Sources of the figures of models, GPUs and links: each shipped figure has one."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from werkzeug.datastructures import MultiDict

from app.scale.roofline import RooflineContext, subject
from app.scale.size import answer
from app.scale.steps import answer as steps
from engine.accounting.derived import Derived
from engine.accounting.presets import gpu_presets, model_presets, presets
from engine.accounting.size import Load
from engine.accounting.sources import Sourced, SourceFacts

LINKS = list(presets().links.values())
SHIPPED: list[Sourced] = [*model_presets(), *gpu_presets(), *LINKS]
LAYERS = {"num_layers", "sliding_layers", "state_layers", "cross_layers"}
# factors that need no source: the request's own quantities and settings
UNSOURCED = {
    *Load.__struct_fields__, "element_bytes", "scale_bytes", "state_bytes", "weight_bytes",
    "activation_bytes", "kept_bytes", "reserve",
}  # fmt: skip
COUNTED = {"kept_params"}  # derived: parameters that are not in the published dtype


def test_every_figure_has_one_source() -> None:
    """A checked source states what it was checked against, and whether that was the vendor's own sheet."""
    for preset in SHIPPED:
        assert {name for fact in preset.source_facts({}) for name in fact.figures} == set(preset.figures)
        for fact in preset.source_facts({}):
            assert fact.figures and len(fact.says) > 10, fact
            assert fact.dated is None or date(2010, 1, 1) <= fact.dated <= date.today()
            assert (fact.checked is None) == (not fact.against), fact
            assert fact.checked is None or (fact.dated or date(2010, 1, 1)) <= fact.checked <= date.today()
            if re.search("data sheet|brief|Specification|roadmap", fact.says) and fact.checked:
                assert re.search("not the (sheet|brief|specification|roadmap) itself", fact.against), fact
        assert len({preset.source_of(name) for name in LAYERS & set(preset.figures)}) <= 1, "one number of the formula"


def test_unverified_figures_of_gpus_are_marked() -> None:
    cards = {gpu.id: gpu for gpu in gpu_presets()}
    assert len(cards) == len(gpu_presets()) > 5 and len(LINKS) > 8
    assert cards["a10"].source_of("flops_per_second.int8").checked is None
    assert cards["a10"].source_of("flops_per_second.float16").checked == date(2026, 11, 24)
    for card in cards.values():
        assert not card.usable_bytes or "data sheet" not in card.source_of("usable_bytes").says, card.id


@pytest.mark.parametrize("model", [one.id for one in model_presets()])
def test_each_factor_that_is_a_figure_shows_its_source(model: str) -> None:
    known = presets()
    found = answer({"model": model, "context": "2048", "shared_prefix": "64"}, known)
    sources = found["model"]["sources"]
    _check_all(known.models[model], found["sizes"], sources)
    for gpu, preset in zip(found["gpus"], gpu_presets(), strict=True):
        _check_all(preset, gpu["numbers"], [*sources, *gpu["sources"]])
    for link, over in zip(found["links"], LINKS, strict=True):
        _check_all(over, [*found["moved"], *link["numbers"]], [*sources, *link["sources"]])


def test_sources_cover_roofs_experts_and_latents(tmp_path: Path) -> None:
    class NoModels:
        is_live = is_loading = False

        @property
        def first(self) -> NoModels:
            return self

    context = RooflineContext(cast("Any", None), cast("Any", NoModels()), tmp_path)
    query = MultiDict({"model": "mixtral-8x7b", "gpu": "t4", "dtype": "int8"})
    found = steps(subject(context, query), tmp_path, query)
    assert found["roof"].source.startswith("NVIDIA T4 data sheet; NVIDIA T4 product brief")
    meanings = {meaning: source.says for source in found["sources"] for meaning in source.meanings}
    assert "data sheet" in meanings["peak_flops"] and "product brief" in meanings["bandwidth"]
    assert meanings["experts"] == meanings["experts_of_a_token"] and "2401.04088" in meanings["experts"]
    query = MultiDict({"model": "deepseek-v3", "gpu": "h100-80gb"})
    found = steps(subject(context, query), tmp_path, query)
    latent = [found["chosen"][phase]["latent"] for phase in ("decode", "prefill")]
    assert [one.value for one in latent] == [2 * 128 * (576 + 512), 2 * 128 * (192 + 128)]
    for one in latent:
        _check_all(presets().models["deepseek-v3"], [one], list(found["sources"]))


def _check_all(preset: Sourced, numbers: list[Derived], sources: list[SourceFacts]) -> None:
    meanings = {meaning for one in sources for meaning in one.meanings}
    for number in numbers:
        for factor in number.factors:
            if not factor.of and factor.meaning not in UNSOURCED | COUNTED:
                assert factor.meaning in meanings, f"{preset.id}: {factor.symbol} of {number.id}"
