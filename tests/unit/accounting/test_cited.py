"""Cited measurements: as published, with words in every language, and with the page's computed numbers."""

import pytest

from app.page.words import languages, scale_words_of
from app.scale.size import answer
from engine.accounting.cited import cited_facts
from engine.accounting.presets import presets

FACTS = {one.id: one for one in cited_facts()}


def test_cited_figures_are_as_printed() -> None:
    """The sources are figure 2 and section 6.3 of the PagedAttention paper, and GPT-2 on a T4, which takes 4.7 times as
    long without a cache.
    """
    held = [FACTS[f"held_{of}"].value for of in ("orca_max", "orca_pow2", "orca_oracle", "vllm")]
    assert held == [20.4, 26.8, 38.2, 96.3] and {FACTS[f"held_{of}"].unit for of in ("vllm", "orca_max")} == {"%"}
    assert [(FACTS[id].value, FACTS[id].to) for id in ("shared_sampling", "shared_beams")] == [(6.1, 9.8), (37.6, 55.2)]
    with_cache, without = FACTS["gpt2_cached"].value, FACTS["gpt2_uncached"].value
    assert (round(with_cache, 1), round(without, 1), round(without / with_cache, 1)) == (11.9, 56.2, 4.7)


@pytest.mark.parametrize("language", languages())
def test_every_cited_figure_has_a_text_and_a_source(language: str) -> None:
    texts = scale_words_of(language)["texts"]
    for fact in cited_facts():
        assert texts[f"scale.size.cited.{fact.id}"] and len(fact.source) > 20


def test_computed_shares_of_used_memory_accompany_the_cited_ones() -> None:
    """A request of 1,000 of 4,096 tokens fills 24 % of one piece, and 99 % of the 1,008 slots of 63 pages of 16."""
    query = {"model": "llama-2-7b", "context": "1000", "max_model_len": "4096"}
    held = {one.id: one.value for one in answer(query, presets())["held"]}
    assert held == pytest.approx({"held_reserved": 1000 / 4096, "held_paged": 1000 / 1008})
