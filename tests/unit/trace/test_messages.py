"""Every type of operation and every reason has a text in every language."""

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, get_args

import msgspec
import pytest
from msgspec import Struct, inspect

from engine.trace.messages import Context, Register, Voice, facets_of, languages, messages_of, texts
from engine.trace.messages.facets import Facet
from engine.trace.messages.words import FOLDER, MISSING, bytes_text, ranges_text
from engine.trace.operations import Allocate, Copy, Evict, Finish, Lookup, Op, Preempt, Submit
from engine.trace.records import Header, Memory, Output, StepRecord, Timing

TYPES: tuple[type[Op], ...] = get_args(Op)
REGISTERS: tuple[Register, ...] = get_args(Register)
PLACEHOLDER = re.compile(r"\{(\w+)[|}]")


def entries(language: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"words.{language}.json").read_text(encoding="utf-8"))["op"]
    return found


def expected(kind: type[Op]) -> dict[str, tuple[str, ...]]:
    return {facet.name: facet.values for facet in facets_of(kind)}


def samples(kind: type[Op]) -> Iterator[Op]:
    """Yield operations of a type with every combination of the values of its enumerated fields."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    names = [field.encode_name for field in info.fields]
    for values in product(*(list(_values_of(field.type)) for field in info.fields)):
        yield kind(**dict(zip(names, values, strict=True)))


def _values_of(kind: inspect.Type) -> Iterator[Any]:
    match kind:
        case inspect.LiteralType():
            yield from kind.values
        case inspect.UnionType():
            yield from _values_of(kind.types[0])
            if isinstance(
                kind.types[0], inspect.LiteralType
            ):  # other optional fields are given where a text names them
                yield None
        case inspect.BoolType():
            yield from (False, True)
        case inspect.IntType():
            yield 3
        case inspect.StrType():
            yield "x"
        case inspect.BytesType():
            yield b"x"
        case inspect.ListType():
            yield [next(_values_of(kind.item_type))] * 2
        case inspect.FloatType():
            yield 0.5
        case inspect.DictType():
            yield {}
        case _:
            raise AssertionError(kind)


@pytest.mark.parametrize("language", languages())
def test_every_operation_and_facet_has_an_entry(language: str) -> None:
    found = entries(language)
    assert set(found) == {kind.__struct_config__.tag for kind in TYPES}
    for kind in TYPES:
        entry = found[str(kind.__struct_config__.tag)]
        parts = {name: tuple(values) for name, values in entry.items() if name not in REGISTERS}
        assert {name: set(values) for name, values in parts.items()} == {
            name: set(values) for name, values in expected(kind).items()
        }, kind


def test_a_new_value_of_a_field_has_no_entry() -> None:
    class Finish(Struct, frozen=True, kw_only=True, tag="finish", tag_field="type"):
        reason: Literal["stop", "length", "abort", "dropped", "brand_new"]

    (facet,) = facets_of(Finish)  # type: ignore[arg-type]
    assert set(facet.values) - set(entries("en")["finish"]["reason"]) == {"brand_new"}


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_operation_has_texts_in_every_register(kind: type[Op], language: str) -> None:
    """Each operation is described alone and within a record."""
    voice = Voice(language)
    known = set(texts(language))
    for op in samples(kind):
        for context in (None, context_of(op)):
            reached = {part.key for part in messages_of(op, context)}
            for key in reached:
                names = key.removeprefix("op.").split(".")
                assert len(names) == 1 or names[2] in entries(language)[names[0]][names[1]]
            for register in ("chain", "plain", "short") if context is None else REGISTERS:
                sentence = voice.render(op, context, register)
                assert sentence.strip() and not re.search(r"[{}]|None", sentence), (register, sentence)
                assert MISSING not in sentence or register == "long", sentence  # a range of positions
            assert any(f"{key}.long" in known for key in reached)


def context_of(*ops: Op, place: int = 0, **fields: Any) -> Context:
    counts = dict.fromkeys(("num_blocks", "blocks_held", "blocks_cached", "tokens_held", "tokens_logical"), 0)
    memory = Memory.counted(**counts, block_size=4, kv_bytes_per_token=1)
    record = StepRecord(index=7, kind="step", step=7, timing=Timing(at=0), memory=memory, ops=list(ops), **fields)
    return Context(header=header(), record=record, index=place)


def header() -> Header:
    engine = {"block_size": 4, "max_num_seqs": 8, "max_num_batched_tokens": 64}
    plain: dict[str, Any] = {"generator": "test", "created": "", "engine": engine, "kv_bytes_per_token": 1}
    model = inspect.type_info(Header)
    assert isinstance(model, inspect.StructType)
    return msgspec.convert(plain | _empty(model, set(plain)), Header)


def _empty(info: inspect.StructType, known: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in info.fields:
        if field.required and field.encode_name not in known:
            kind = field.type
            found[field.encode_name] = (
                _empty(kind, set()) if isinstance(kind, inspect.StructType) else next(_values_of(kind))
            )
    return found


def test_all_languages_have_the_same_texts_and_placeholders() -> None:
    english = texts("en")
    for language in languages():
        other = texts(language)
        assert set(other) == set(english), language
        for key, text in english.items():
            assert set(re.findall(r"\{(\w+)\}", text)) <= set(PLACEHOLDER.findall(other[key])), (language, key)
            assert set(re.findall(r"\{(\w+)\}", other[key])) <= set(PLACEHOLDER.findall(text)), (language, key)


def lookup(**fields: Any) -> Lookup:
    plain: dict[str, Any] = {"seq_id": 1, "verdict": "miss", "num_tokens": 9, "num_hit_tokens": 0, "block_ids": []}
    return Lookup(**(plain | fields))


def test_a_lookup_text_has_the_hits_and_the_reason_of_a_miss() -> None:
    op = lookup(verdict="hit", num_hit_tokens=4, block_ids=[3], reason="differs", closest_seq_id=0, num_shared_tokens=6)
    assert Voice().render(op, context_of(op)) == (
        "seq 1: the prefix cache has 4 of 9 tokens, 1 block (3). Closest is seq 0: equal up to position 6, where a "
        "token differs."
    )
    evicted = lookup(reason="evicted", lost_block_id=5, evicted_in=6, evicted_for=2)
    named = Voice("zh", name=lambda seq_id: f"甲（{seq_id}）").render(evicted, context_of(evicted))
    assert "甲（" in named and "） " not in named
    sentence = Voice("zh", name=lambda seq_id: f"甲{seq_id}", first_record=0).render(evicted, context_of(evicted))
    assert sentence == (
        "甲1：前缀缓存未命中，最后一个词元之前的 2 个满块，一个也没有命中。"  # ⌊8 / 4⌋ = 2
        "下一个块原来缓存在块 5，在记录 6 被甲2 取走。"
    )


def test_a_lookup_text_explains_a_full_last_block() -> None:
    """16 tokens fill 4 blocks of 4, and 3 can hit, as the last token is always computed."""
    miss, hit = lookup(num_tokens=16), lookup(verdict="hit", num_tokens=16, num_hit_tokens=12, block_ids=[0, 1, 2])
    explanation = "The last token must always be computed, so its own block, though full, is not looked up."
    assert Voice().render(miss, context_of(miss)) == (
        f"seq 1: prefix cache miss, none of the 3 full blocks before its last token hits. {explanation}"
    )
    assert Voice().render(hit, context_of(hit)).endswith(explanation)
    for other in (lookup(num_tokens=15), lookup(verdict="hit", num_tokens=16, num_hit_tokens=8, block_ids=[0, 1])):
        assert explanation not in Voice().render(other, context_of(other)), "the hits end for another reason"


def test_a_preemption_text_names_beneficiary_reason_and_cost() -> None:
    plain: dict[str, Any] = {"seq_id": 1, "queue_position": 0, "for_seq_id": 0, "num_computed_tokens": 8}
    lost = Preempt(**plain, mode="recompute")  # without `num_recompute_tokens`, as in older logs
    assert Voice().render(lost, None, "short") == (
        "seq 1 was preempted for seq 0. It was the last one admitted. 8 computed tokens are lost and will be computed "
        "again."
    )
    assert Voice().render(lost, None, "plain") == (
        "seq 0 needed a block and none was free: seq 1 had to give its own back. The last to come in is the first to "
        "go. Its 8 computed tokens are lost, and will be computed again."
    )
    itself = Preempt(**(plain | {"for_seq_id": 1}), mode="recompute")
    sentence = Voice().render(itself, None, "plain")
    assert sentence.startswith("seq 1 needed a block and none was free: it had to give its own back.")
    partly_cached = Preempt(**plain, mode="recompute", num_kept_tokens=4, num_recompute_tokens=4, swap_refused=True)
    assert Voice().render(partly_cached) == (
        "seq 1 preempted: no block was free for seq 0. Chosen as the last one admitted. 8 computed tokens given up: "
        "4 could still be found, 4 must be computed again. A swap was wanted, but CPU memory had no room."
    )
    swapped = Preempt(**plain, mode="swap", num_blocks=2, num_bytes=1152)
    assert Voice().render(swapped).endswith("2 blocks (1.13\u2009KiB) moved to CPU memory, nothing is computed again.")


def test_an_allocation_text_gives_the_reason() -> None:
    appended = Allocate(seq_id=0, block_id=5, logical=2, reason="append")
    assert Voice().render(appended, context_of(appended)) == (
        "seq 0 gets 1 block (5). Its last block was full: the token at position 8 begins a new one."  # 2 · 4
    )
    copied = Allocate(seq_id=0, block_id=5, logical=2, reason="copy")
    copy = Copy(seq_id=0, logical=2, src=4, dst=5)
    sentence = Voice().render(copied, context_of(copied, copy))
    assert sentence.endswith("It is about to write to block 4, which others hold too.")


def test_an_eviction_text_names_the_new_owner_or_an_unwritten_block() -> None:
    op = Evict(block_id=5, block_hash=b"h", seq_id=3, lifetime_steps=1, idle_steps=1, num_hits=2)
    taken = Voice().render(op, context_of(op, Allocate(seq_id=3, block_id=5, logical=0)))
    assert taken == (
        "1 cached block (5) evicted: seq 3 needs the room. It lived 1 step, was found 2 times, and idle for 1."
    )
    assert "what it promised was never written" in Voice().render(op, context_of(op))


def test_a_submission_text_has_fields_that_are_not_defaults() -> None:
    plain: dict[str, Any] = {
        "seq_id": 0, "queue_position": 2, "request_id": "r", "prompt_token_ids": [1], "prompt_token_bytes": [b"a"],
        "max_tokens": 1,
    }  # fmt: skip
    usual = "seq 0 arrives with 1 prompt token, place 3 in the queue; at most 1 new token."
    assert Voice().render(Submit(**plain)) == usual
    submit = Submit(**plain, priority=-1, cache_salt="s")
    assert Voice().render(submit) == f"{usual} Its priority is -1. Its cache salt is “s”."
    assert Voice().render(Finish(seq_id=0, reason="stop", detail="</s>")) == (
        "seq 0 finished: it came to a stop. What decided it: </s>."
    )


def test_forced_tokens_are_named_by_their_text() -> None:
    fields = {"type": "sample", "seq_id": 0, "token_id": 9, "sampled_token_id": 2}
    op = msgspec.convert(fields, Op)  # type: ignore[arg-type]
    assert Voice().render(op, None, "short") == (
        "“#9” is chosen for seq 0. It was settled from outside: the sampler took “#2”."
    )
    output = Output(seq_id=0, token_id=9, token_bytes=b"\n", text="\n", logprob=-1.0, top=[])
    sentence = Voice("zh").render(op, context_of(op, outputs=[output]), "short")
    assert sentence == "序列 0 选中“⏎”。它由外部指定：采样器选的是“#2”。"


def test_missing_values_are_shown_as_a_dash() -> None:
    op = Allocate(seq_id=0, block_id=5, logical=2, reason="copy")
    assert Voice().render(op, context_of(op)).endswith("It is about to write to block –, which others hold too.")


def test_ranges_and_bytes_are_formatted() -> None:
    assert ranges_text([3, 4, 5, 7, 8, 12]) == "3–5, 7, 8, 12"
    assert ranges_text([1, 3, 5, 7, 9, 11, 13]) == "1, 3, 5, 7, 9, …"
    assert [bytes_text(count) for count in (0, 1023, 1024, 36864, 1152, 72 << 30)] == [
        "0\u2009B", "1023\u2009B", "1\u2009KiB", "36\u2009KiB", "1.13\u2009KiB", "72\u2009GiB",
    ]  # fmt: skip


def test_facets_are_in_display_order() -> None:
    def names(facets: tuple[Facet, ...]) -> list[str]:
        return [facet.name for facet in facets]

    assert names(facets_of(Preempt)) == ["whom", "reason", "cost", "swap_refused"]
    assert names(facets_of(Lookup)) == ["verdict", "reason", "last_block"]
