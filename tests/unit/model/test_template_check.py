"""Check of chat templates: append-only ones, and one for each way of breaking the prefix."""

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import load_model
from engine.model.shipped import SHIPPED
from engine.model.template_check import (
    ChatTemplate,
    NoChatTemplateError,
    Outcome,
    cases_of,
    check_template,
    common_length,
    open_template,
    turns,
)
from engine.model.text_cuts import Tokens
from engine.trace.operations import Admit

OPEN, CLOSE, ASK = "<|{{ m.role }}|>", "<|end|>", "{% if add_generation_prompt %}<|assistant|>{% endif %}"
LOOP, END = "{% for m in messages %}", "{% endfor %}"
TEXT = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
)
THINK = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
CALLS = "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
TOOLS = "{% if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif %}"

APPENDING = {
    "headers": LOOP + OPEN + TEXT + CLOSE + END + ASK,
    "tools first": TOOLS + LOOP + OPEN + TEXT + CALLS + CLOSE + END + ASK,
    "all that was thought": LOOP + OPEN + THINK + TEXT + CLOSE + END + ASK,
    "brackets": LOOP + "{% if m.role == 'user' %}[INST]" + TEXT + "[/INST]{% else %}" + TEXT + "</s>{% endif %}" + END,
    "it refuses tools": "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + LOOP + OPEN + TEXT + END + ASK,
}  # fmt: skip
# source, name of a breaking case, number of turns back, setting that avoids it
BREAKING: dict[str, tuple[str, str, int, str]] = {
    "an empty thought in the last answer alone": (
        LOOP + OPEN + TEXT + CLOSE + END + ASK
        + "{% if add_generation_prompt and enable_thinking is false %}<think></think>{% endif %}",
        "reasoning switched off", 0, "",
    ),
    "reasoning is cut from history": (
        LOOP + OPEN + "{% if loop.last or keep %}" + THINK + "{% endif %}" + TEXT + CLOSE + END + ASK,
        "reasoning", 0, "keep=true",
    ),
    "a mark at the last question": (
        LOOP + OPEN + "{% if loop.last %}(now) {% endif %}" + TEXT + CLOSE + END + ASK, "a system message", 0, "",
    ),
    "the date": (
        "<|date|>{{ strftime_now('%d %B %Y') }}<|end|>" + LOOP + OPEN + TEXT + CLOSE + END + ASK, "another day", 0, "",
    ),
    "the system message with the last question": (
        LOOP + "{% if m.role != 'system' %}" + OPEN
        + "{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content }} {% endif %}"
        + TEXT + CLOSE + "{% endif %}" + END + ASK,
        "a system message", 0, "",
    ),
    "a count of the messages": (
        "<|of {{ messages | length }}|>" + LOOP + OPEN + TEXT + CLOSE + END + ASK, "no system message", 0, "",
    ),
    "tools before the last question": (
        LOOP + "{% if loop.last %}" + TOOLS + "{% endif %}" + OPEN + TEXT + CALLS + CLOSE + END + ASK, "tools", 0, "",
    ),
    "answers are trimmed": (
        LOOP + OPEN + "{{ m.content | trim if m.content is string else m.content[0].text }}" + CLOSE + END + ASK,
        "an answer between spaces", 0, "",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(str(SHIPPED["bundled"].folder))


def checked(source: str, tokenizer: Any) -> dict[str, Outcome]:
    return {one.case: one for one in check_template(template_of(source, tokenizer))}


def template_of(source: str, tokenizer: Any) -> ChatTemplate:
    return ChatTemplate(
        source, lambda text: tokenizer(text, add_special_tokens=False)["input_ids"], lambda text: Tokens([], [], b"")
    )


@pytest.mark.parametrize("name", APPENDING)
def test_append_only_templates_pass_every_case(name: str, tokenizer: Any) -> None:
    """Cases in which the client removes a message, and refusals, do not count against a template."""
    found = checked(APPENDING[name], tokenizer)
    refused = {"tools"} if "refuses" in name else set()
    assert {case for case, one in found.items() if one.verdict == "refused"} == refused, found
    broken = [one for one in found.values() if one.verdict == "breaks"]
    assert all(one.by_client for one in broken), broken
    assert ("reasoning" in found) == ("think" in name or "thought" in name)


@pytest.mark.parametrize("name", BREAKING)
def test_breaking_templates_are_reported_with_the_position(name: str, tokenizer: Any) -> None:
    source, case, turns_back, avoided_by = BREAKING[name]
    found = checked(source, tokenizer)[case]
    assert found.verdict == "breaks" and found.first is not None
    assert (found.first.turns_back, found.avoided_by) == (turns_back, avoided_by)
    assert 0 < found.tokens_again < found.tokens
    before, _, after = found.first.cached.partition("|")
    assert found.first.rendered.startswith(before + "|") and not found.first.rendered.endswith("|" + after)


def test_the_verdict_predicts_the_engines_hits(tokenizer: Any) -> None:
    """Given blocks of one token, a prompt hits the common prefix with the cached one, except its last token."""
    config = EngineConfig(block_size=1, num_blocks=4096, num_logprobs=0, enforce_eager=True)
    model = load_model("bundled", dtype="float32", device="cpu")
    sampling = SamplingParams(max_tokens=1, ignore_eos=True)
    broken = [(source, case_name) for source, case_name, *_ in BREAKING.values()]
    for source, case_name in [*broken, (APPENDING["headers"], "a system message")]:
        template = template_of(source, tokenizer)
        case = next(case for case in cases_of(template) if case.name == case_name)
        found = checked(source, tokenizer)[case_name]
        pairs = list(turns(template, case, 2))[1:]
        cached, prompt = pairs[found.first.turn - 1 if found.first is not None else -1]
        held, tokens = list(template.encode(cached)), list(template.encode(prompt))
        with Engine(model, config, keep_log=False) as engine:
            ops = []
            for sent in (held, tokens):
                engine.add_request(sent, sampling)
                while engine.has_unfinished():
                    ops += engine.step().ops
        hit = [op.num_cached_tokens for op in ops if isinstance(op, Admit)][-1]
        assert hit == common_length(held, tokens)
        assert hit == (found.first.token if found.first is not None else len(held))


def test_a_template_with_a_syntax_error_is_refused_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{% for m in messages %}\n{% endfo %}")
    with pytest.raises(ValueError, match=r"^line 2: "):
        open_template(str(tmp_path / "t.jinja"))


def test_a_shipped_model_without_a_template_is_reported() -> None:
    with pytest.raises(NoChatTemplateError, match="the tokenizer has no chat template"):
        open_template("bundled-mha")
