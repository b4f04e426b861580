"""Positions of texts in prompts rendered by a chat template."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.openai.conversations import conversation_of
from engine.model.template_check import ChatTemplate
from engine.model.text_cuts import Tokens
from engine.prompts.segments import segments_of
from engine.prompts.text_positions import places_of, skeleton_of, with_marks
from tests.unit.prompts.sessions import tool

SHAPES: dict[str, Callable[[str], str]] = {
    "{{ m.content }}": lambda text: text,
    "{{ m.content | trim }}": str.strip,
    "{{ m.content.strip('\n') }}": lambda text: text.strip("\n"),
    "{{ m.content.lstrip('\n') }}": lambda text: text.lstrip("\n"),
}
# words and white space that also occur in the markers
TEXTS = st.sampled_from(
    ["user", "im", "im_start", "s", "<", "assistant", " user ", "\nuser\n\n", "user\nim", "INST", "\n", " \nim \n", "a"]
)
MARKERS = st.sampled_from(["<|im_start|>{}\n", "{}: ", "\n\n{}\n\n", "[INST]", "<s>{} ", "{}", ""])
ENDS = st.sampled_from(["<|im_end|>\n", "\n", "</s>", " [/INST]", ""])


def render(source: str, body: dict[str, Any]) -> tuple[str, list[tuple[str, int, int]]]:
    """Render a body of chat completions, and return the text with path, start and end of each position."""
    template, segments = ChatTemplate(source, lambda text: [], lambda text: Tokens([], [], b"")), segments_of(body)
    marked, leaves = with_marks(body, segments)
    both = map(conversation_of, (body, marked))
    text, shape = (template.render(one.messages, **one.settings) for one in both)
    places = places_of(text, skeleton_of(shape, leaves), segments)
    return text, [(segments[place.segment].path, place.begin, place.end) for place in places]


@settings(max_examples=200, deadline=None)
@given(
    contents=st.lists(TEXTS, min_size=1, max_size=6), shape=st.sampled_from(list(SHAPES)), opening=MARKERS, closing=ENDS
)
def test_texts_are_located_where_the_template_writes_them(
    contents: list[str], shape: str, opening: str, closing: str
) -> None:
    """The texts contain words of the template, and white space surrounds them."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]
    before = repr(opening).replace("{}", "' + m.role + '")
    source = f"{{% for m in messages %}}{{{{ {before} }}}}{shape}{{{{ {closing!r} }}}}{{% endfor %}}"
    expected, expected_text = list[tuple[str, int, int]](), ""
    for number, message in enumerate(messages):
        expected_text += opening.replace("{}", message["role"])
        written = SHAPES[shape](message["content"])
        if written.strip():
            expected.append((f"messages[{number}].content", len(expected_text), len(expected_text) + len(written)))
        expected_text += written + closing
    assert render(source, {"messages": messages}) == (expected_text, expected)


MESSAGES = [
    {"role": "user", "content": [{"type": "text", "text": "think"}, {"type": "text", "text": "role"}]},
    {"role": "assistant", "content": "think", "reasoning_content": "reasoning"},
    {"role": "user", "content": "think"},
]
LOOP = "{% for m in messages %}<{{ m.role }}>"
CONTENT = "{{ m.content }}</{{ m.role }}>{% endfor %}"


@pytest.mark.parametrize(
    ("thought", "found"),
    [
        ("<think>{{ m.reasoning_content }}</think>", ["think", "role", "reasoning", "think", "think"]),
        ("{% if loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}", ["think", "role", "think", "think"]),
        # markers that depend on the text: the text is located by the following one
        ("{% if 'think' in m.content %}<think>role</think>{% endif %}", ["think", "role", "think", "think"]),
    ],
)
def test_parts_and_reasoning_are_located_in_order(thought: str, found: list[str]) -> None:
    text, places = render(LOOP + thought + CONTENT, {"messages": MESSAGES})
    assert [text[begin:end] for _, begin, end in places] == found
    assert all(text[end] in "\n<" and text[begin - 1] in "\n>" for _, begin, end in places)
    assert text[places[0][1] :].startswith("think\nrole</user>")


def test_a_text_that_the_template_changes_is_skipped() -> None:
    source = LOOP + "{{ m.content.replace('a', 'o') }}</{{ m.role }}>{% endfor %}"
    messages = [{"role": "user", "content": content} for content in ("user", "banana", "user", "us")]
    text, places = render(source, {"messages": messages})
    assert [path for path, *_ in places] == [f"messages[{number}].content" for number in (0, 2, 3)]
    assert [begin for _, begin, _ in places] == [text.index(">user") + 1, text.rindex(">user<") + 1, text.rindex("us<")]


def test_a_mark_quoted_by_a_tool_is_not_located_as_a_text() -> None:
    body = {"tools": [tool("read", "\ue0007\ue001")], "messages": [{"role": "user", "content": "user"}]}
    text, places = render("{{ tools[0].function.description }}" + LOOP + CONTENT, body)
    assert places == [("messages[0].content", text.index(">user") + 1, text.index("</user>"))]


@pytest.mark.parametrize("arguments", [{"path": "a.txt"}, '{"path":"a.txt"}'])
def test_tools_and_calls_are_located_between_the_texts(arguments: Any) -> None:
    """A text may quote tools and calls, and the template may write an object for a string of the request."""
    call = '{"name": "read", "arguments": {"path": "a.txt"}}'
    called = {"id": "c", "type": "function", "function": {"name": "read", "arguments": arguments}}
    declared = '{"type": "function", "function": {"name": "read"}}'
    body = {
        "tools": [{"type": "function", "function": {"name": "read"}}, tool("write")],
        "messages": [
            {"role": "system", "content": declared},
            {"role": "user", "content": call},
            {"role": "assistant", "content": call, "tool_calls": [called]},
            {"role": "tool", "content": call, "tool_call_id": "c"},
        ],
    }
    calls = "{% for call in m.tool_calls %}<call>{{ call.function | tojson }}</call>{% endfor %}"
    tools = "<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    text, places = render(tools + LOOP + calls + CONTENT, body)
    found = {path: text[begin - 3 : end] for path, begin, end in places}
    assert list(found) == [
        "tools[0]", "tools[1]", "messages[0].content", "messages[1].content", "messages[2].tool_calls[0].function",
        "messages[2].content", "messages[3].content",
    ]  # fmt: skip
    assert found["tools[0]"] == f"ls>{declared}" and found["messages[0].content"] == f"em>{declared}"
    assert found["messages[2].tool_calls[0].function"] == f"ll>{call}" and found["messages[2].content"] == f"ll>{call}"
