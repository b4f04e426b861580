"""Hits of prompts under each provider's cache policy."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.prompts.engine_cache import EngineCache
from engine.prompts.policies import Hit, policies
from engine.prompts.readers import PromptRequest
from engine.prompts.report import CacheReplay, Settings
from engine.prompts.segments import Segment


def request(*texts: str, time: float = 0.0, marks: tuple[int, ...] = (), kept: float = 300.0, model: str = "m"):
    segments = [
        Segment(f"messages[{i}].content", "message", "user", text, kept if i in marks else None)
        for i, text in enumerate(texts)
    ]
    return PromptRequest(1, model, segments, time=time)


def hits(policy: str, *requests: PromptRequest) -> list[Hit]:
    """Return the hits with one token per character."""
    player = CacheReplay(lambda text: [ord(char) for char in text], Settings())
    return [player.run(one).hits[policy] for one in requests]


# texts and prompts that often have common prefixes
TEXT = st.sampled_from([*("a" * count for count in (3, 20, 40)), "a" * 20 + "b", "a" * 35 + "b"])
PROMPTS = st.lists(st.lists(TEXT, min_size=1, max_size=5), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(prompts=PROMPTS)
def test_the_prefix_tree_gives_the_hits_of_the_engines_cache(prompts: list[list[str]]) -> None:
    """Segments begin with marks, as in a rendered template."""
    engine = EngineCache(num_blocks=1000, block_size=16)
    player = CacheReplay(lambda text: [ord(char) for char in text], Settings())
    for index, texts in enumerate(prompts):
        one = request(*(f"{i}{text}" for i, text in enumerate(texts)))
        found = engine.admit(index, [player.tokens_of(segment) for segment in one.segments])
        assert player.run(one).hits["vllm"].num_tokens == found.num_tokens


def test_segments_of_other_roles_with_equal_tokens_hit() -> None:
    """The segments differ in their roles, and all tokens are equal."""
    one = request(*(f"{number:05}" for number in range(1500)))
    other = replace(one, segments=[replace(segment, role="assistant") for segment in one.segments])
    assert hits("sglang", one, other)[1].num_tokens == 5 * 1500 - 1


def test_an_eviction_in_a_small_pool_names_the_request() -> None:
    engine = EngineCache(num_blocks=4, block_size=16)
    prompts = [[[n] * 40] for n in range(3)]
    assert [engine.admit(i, tokens).num_tokens for i, tokens in enumerate(prompts)] == [0, 0, 0]
    assert engine.admit(3, prompts[0]) == Hit(0, "evicted", "3")
    assert engine.admit(4, prompts[0], "another model").num_tokens == 0


def test_openai_caches_from_1024_tokens_in_steps_of_128_and_expires() -> None:
    long, short = "x" * 1100, "y" * 900
    assert [hit.num_tokens for hit in hits("openai", request(long), request(long + "z"), request(short))] == [
        0,
        1024,
        0,
    ]
    assert hits("openai", request(short), request(short))[1].limit == "too_short"
    later = hits("openai", request(long), request(long, time=400), request(long, time=5000))
    assert (later[1].num_tokens, later[1].maybe, later[2].limit) == (1024, True, "expired")


def test_anthropic_hits_prefixes_of_earlier_breakpoints() -> None:
    tools, turn = "t" * 1500, "u" * 50
    unmarked = request(tools, turn)
    assert hits("anthropic", unmarked, unmarked)[1].limit == "no_breakpoint"
    marked = request(tools, turn, marks=(0,))
    assert [hit.num_tokens for hit in hits("anthropic", marked, marked)] == [0, 1500]
    assert hits("anthropic", marked, request(tools, turn, marks=(0,), time=301))[1] == Hit(0, "expired")
    used = request(tools, turn, marks=(0,), time=200)
    assert hits("anthropic", marked, used, request(tools, turn, marks=(0,), time=450))[2].num_tokens == 1500
    hour = request(tools, marks=(0,), kept=3600)
    uses = [request(tools, turn, marks=(1,), time=when) for when in (3000, 6000)]  # each extends the lifetime by 1 h
    assert [hit.num_tokens for hit in hits("anthropic", hour, *uses)] == [0, 1500, 1500]
    far = request(tools, *(str(i) for i in range(21)), marks=(21,))
    assert hits("anthropic", marked, far)[1].limit == "breakpoint_out_of_reach"
    near = request(tools, *(str(i) for i in range(19)), marks=(19,))
    assert hits("anthropic", marked, near)[1].num_tokens == 1500
    small = request("s" * 800, marks=(0,))
    assert hits("anthropic", small, small)[1].limit == "too_short"
    opus = request("s" * 2000, marks=(0,), model="claude-opus-4-6")
    assert hits("anthropic", opus, opus)[1].limit == "too_short"


def test_a_llama_cpp_slot_caches_only_its_previous_prompt() -> None:
    one, other = request("a" * 50), request("b" * 50)
    assert [hit.num_tokens for hit in hits("llama.cpp", one, one, other, one)] == [0, 49, 0, 0]
    assert hits("llama.cpp", one, other, one)[2].limit == "other_slot"


def test_prompts_in_other_segments_share_their_tokens() -> None:
    one, other = request("ab", "cd", "e"), request("a", "bc", "de")
    assert [hits(policy, one, other)[1].num_tokens for policy in ("sglang", "llama.cpp")] == [4, 4]


def test_every_policy_has_a_source() -> None:
    assert all(policy.sources for policy in policies().values())


def test_models_with_other_rules_are_not_simulated() -> None:
    long = "x" * 1300
    for model, limit in (("gpt-5.4", "rounded"), ("gpt-5.6-sol", "other_rules"), ("openai/gpt-6", "other_rules")):
        assert hits("openai", request(long, model=model), request(long, model=model))[1].limit == limit


def test_the_minimum_prefix_does_not_depend_on_the_spelling_of_the_model() -> None:
    anthropic = policies()["anthropic"]
    for model, minimum in (
        ("claude-opus-4-6", 4096),
        ("anthropic/claude-opus-4.6", 4096),
        ("claude-opus-4-7", 2048),
        ("claude-opus-4-8", 1024),
        ("claude-opus-5-5", 512),
        ("claude-sonnet-5", 1024),
        ("claude-sonnet-5.5", 512),
        ("Claude-Haiku-4-5-20251001", 4096),
    ):
        assert anthropic.minimum_of(model) == minimum
