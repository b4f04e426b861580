"""Rendering of a conversation from the first message that differs from an earlier one."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.model import resumed_template
from engine.model.resumed_template import Rendering
from engine.model.template_check import ChatTemplate
from engine.model.text_cuts import Tokens

BEFORE = [
    "",
    "{% for tool in tools or [] %}[{{ tool }}]{% endfor %}",
    "{% if messages %}{{ messages[0].role }}{% endif %}",
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}",
    "{{ messages | length }}",
    "{{ messages[-1].content }}",
    "{% for m in messages[::-1] %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}",
    "{% for m in messages %}{% if m.role == 'tool' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}",
    "{% if add_generation_prompt %}!{% endif %}",
]
INSIDE = [
    "{{ m.content }}",
    "{{ m.content | trim }}{% if loop.last %}<last>{% endif %}",
    "{% if loop.first %}<first>{% endif %}",
    "{% if loop.index0 and messages[loop.index0 - 1].role == m.role %}+{% endif %}",
    "{% if messages[loop.index0 + 1] is defined %}>{{ messages[loop.index0 + 1].role }}{% endif %}",
    "{% if loop.index0 > ns.last %}<late>{% endif %}",
    "{% set ns.count = ns.count + 1 %}{{ ns.count }}",
    "{% if ns.role == m.role %}={% endif %}{% set ns.role = m.role %}",
    "{% if m.role == 'tool' %}{% continue %}{% endif %}",
    "{% if m.content == 'stop' %}{% break %}{% endif %}",
    "{{ loop.length }}{{ loop.revindex }}",
    "{{ loop.previtem.role if loop.previtem is defined }}{{ loop.index }}",
    "{{ loop.nextitem.role if loop.nextitem is defined }}",
    "{% if m in messages[:2] %}2{% endif %}",
    "{% set x = x ~ m.role %}{{ x }}",
    "{% if m.content == 'refused' %}{{ raise_exception('no') }}{% endif %}",
    "{{ messages | tojson }}",
    "{% if add_generation_prompt %}?{% endif %}",
    "{% for one in messages %}.{% endfor %}",
]
OVER = ["messages", "messages[1:]", "rest"]
AFTER = [
    "",
    "{% if add_generation_prompt %}<answer>{% endif %}",
    "{{ ns.count }}{{ ns.role }}",
    "{{ messages[-1].role }}",
]
NAMESPACE = "{% set ns = namespace(last=0, count=0, role='') %}{% set x = '' %}{% set rest = messages %}"
SOURCES = st.builds(
    lambda before, over, inside, after: (
        NAMESPACE
        + "".join(before)
        + f"{{% for m in {over} %}}|{{{{ m.role }}}}"
        + "".join(inside)
        + "{% endfor %}"
        + after
    ),
    st.lists(st.sampled_from(BEFORE), max_size=2),
    st.sampled_from(OVER),
    st.lists(st.sampled_from(INSIDE), min_size=1, max_size=4),
    st.sampled_from(AFTER),
)
TOOLS = [{"name": "t"}]
MESSAGE = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.sampled_from(["a", " b ", "stop", "refused", ""]),
)
CONVERSATIONS = st.lists(
    st.tuples(st.integers(0, 9), st.lists(MESSAGE, max_size=3), st.booleans(), st.sampled_from([None, TOOLS])),
    min_size=2,
    max_size=5,
)


def template_of(source: str) -> ChatTemplate:
    return ChatTemplate(source, lambda text: [], lambda text: Tokens([], [], b""))


def outcome(template: ChatTemplate, messages: list[dict[str, Any]], options: dict[str, Any]) -> str:
    try:
        return template.render(messages, **options)
    except ValueError as error:
        return f"refused: {error}"


@settings(max_examples=400, deadline=None)
@given(SOURCES, CONVERSATIONS)
@example(NAMESPACE + BEFORE[1] + "{% for m in messages %}" + INSIDE[6] + "{% endfor %}", [(0, [], True, TOOLS)] * 3)
def test_a_resumed_rendering_equals_a_full_one(source: str, steps: Sequence[Any]) -> None:
    """Each conversation continues a prefix of the previous one."""
    template, messages = template_of(source), list[dict[str, Any]]()
    earlier: Rendering | None = None
    for num_kept, more, generates, tools in steps:
        messages = [dict(one) for one in messages[:num_kept]] + more
        options = {"add_generation_prompt": generates, "tools": tools}
        expected = outcome(template, messages, options)
        try:
            earlier = template.rendering(messages, options, earlier)
        except ValueError as error:
            assert f"refused: {error}" == expected
            earlier = None
        else:
            assert earlier.text == expected


APPENDING = NAMESPACE + BEFORE[1] + BEFORE[3] + "{% for m in rest %}" + INSIDE[0] + INSIDE[6] + INSIDE[7] + INSIDE[4]
APPENDING += "{% endfor %}" + AFTER[1]


def test_a_resumed_rendering_renders_only_new_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    template, messages = template_of(APPENDING), [{"role": "system", "content": "s"}]
    earlier: Rendering | None = None
    for turn in range(20):
        messages.append({"role": ("user", "assistant")[turn % 2], "content": f"{turn}"})
        options: dict[str, Any] = {"add_generation_prompt": turn % 2 == 0, "tools": TOOLS}
        expected = template.render(messages, **options)
        if earlier is not None:
            resumable = resumed_template._resumable(APPENDING)
            start = resumable.start(earlier, messages, {**options}) if resumable else None
            assert start is not None and start.position >= turn - 2
            with monkeypatch.context() as patched:
                patched.setattr(ChatTemplate, "_rendered", lambda *_: pytest.fail("all messages are rendered"))
                earlier = template.rendering(messages, options, earlier)
        else:
            earlier = template.rendering(messages, options, None)
        assert earlier.text == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ strftime_now('%S') }}{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% set one = cycler('a', 'b') %}{% for m in messages %}{{ one.next() }}{% endfor %}",
        "{% for m in messages %}{% if loop.changed(m.role) %}{{ m.role }}{% endif %}{% endfor %}",
        "{% macro all() %}{% for m in messages %}{{ m.content }}{% endfor %}{% endmacro %}{{ all() }}",
    ],
)
def test_a_template_with_other_state_is_not_resumed(source: str) -> None:
    found = template_of(source).rendering([{"role": "user", "content": "a"}], {}, None)
    assert found.iterations == ()
