"""Prompts and answers rendered by a chat template, with the hits of the engine's own cache."""

import json
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli import main
from app.openai.conversations import conversation_of
from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.loader import load_model
from engine.model.shipped import SHIPPED
from engine.model.template_check import ChatTemplate, open_template
from engine.model.text_cuts import Tokens
from engine.prompts.answers import with_answers
from engine.prompts.engine_cache import EngineCache
from engine.prompts.readers import PromptRequest
from engine.prompts.rendering import CannotRender, rendered
from engine.prompts.report import CacheReplay, Settings, Verdict
from engine.prompts.segments import segments_of
from engine.trace.operations import Lookup
from tests.unit.prompts.sessions import changed, chat, text, tool

HEAD, ASK = "{% for m in messages %}<|{{ m.role }}|>", "{% if add_generation_prompt %}<|assistant|>{% endif %}"
THOUGHT = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
TOOLS = "{% if tools %}<|tools|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}<|end|>{% endif %}"
BODY = "{{ m.content }}<|end|>{% endfor %}"
APPENDING = TOOLS + HEAD + THOUGHT + BODY + ASK
DROPPING = HEAD + "{% if loop.index0 + 3 > messages | length %}" + THOUGHT + "{% endif %}" + BODY + ASK
EMPTY_THOUGHT = HEAD + BODY + ASK.replace("<|assistant|>", "<|assistant|><think></think>")
TRIMMING = HEAD + "{{ m.content | trim }}\n{% endfor %}Answer: "

SPECIAL = TOOLS + HEAD + "{{ m.content | trim }}<|endoftext|>{% endfor %}" + ASK  # a single token


def folder_with(source: str, folder: Path) -> Path:
    """Write a tokenizer with a chat template."""
    bundled = SHIPPED["bundled"].folder
    shutil.copy(bundled / "tokenizer.json", folder)
    config = json.loads((bundled / "tokenizer_config.json").read_text(encoding="utf-8"))
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": source}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ChatTemplate]:
    sources = (APPENDING, DROPPING, EMPTY_THOUGHT, TRIMMING, SPECIAL)
    return {source: open_template(str(folder_with(source, tmp_path_factory.mktemp("one")))) for source in sources}


def requests_of(bodies: list[dict[str, Any]]) -> list[PromptRequest]:
    found = [
        PromptRequest(
            line,
            body["model"],
            segments_of(body),
            body=body,
            reported_output=body.get("generated"),
            reported_reasoning=body.get("reasoned"),
        )
        for line, body in enumerate(bodies, 1)
    ]
    return with_answers(found)


def play(template: ChatTemplate, bodies: list[dict[str, Any]]) -> tuple[list[PromptRequest], list[Verdict]]:
    requests = list(rendered(requests_of(bodies), template, conversation_of))
    player = CacheReplay(template.encode, Settings())
    return requests, [player.run(request) for request in requests]


def breaks(verdicts: list[Verdict]) -> list[tuple[str, str]]:
    return [(verdict.parted.cause, verdict.parted.path) for verdict in verdicts if verdict.parted]


def test_a_template_that_drops_reasoning_is_a_cause_and_an_appending_one_is_not(
    templates: dict[str, ChatTemplate],
) -> None:
    bodies = [chat(turns, reasoning=True) for turns in (1, 2, 3, 4)]
    assert breaks(play(templates[APPENDING], bodies)[1]) == []
    found = breaks(play(templates[DROPPING], bodies)[1])
    assert found == [("template_differs", f"messages[{2 * turn}].content (template)") for turn in (1, 2)]
    assert breaks(play(templates[EMPTY_THOUGHT], bodies[:2])[1]) == [
        ("template_differs", "messages[2].content (template)")
    ]


def test_changes_by_the_client_have_the_same_causes_with_a_template(templates: dict[str, ChatTemplate]) -> None:
    tools = {"tools": [tool("read"), tool("write")]}
    bodies = [chat(2) | tools, changed(chat(3), "messages", 2, "content", to=text(96, 70)) | tools]
    bodies.append(bodies[-1] | {"tools": tools["tools"][::-1]})
    assert breaks(play(templates[APPENDING], bodies)[1]) == [
        ("message_edited", "messages[2].content"),
        ("tools_reordered", "tools[0].function.name"),
    ]


def test_bodies_of_each_api_give_the_same_conversation() -> None:
    call = {"name": "read", "arguments": {"path": "a.txt"}}
    schema = {"type": "object"}
    of_chat = {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "c", "content": "moon"},
        ],
        "tools": [{"type": "function", "function": {"name": "read", "parameters": schema}}],
    }
    use = {"type": "tool_use", "id": "c", "name": "read", "input": call["arguments"]}
    of_messages = {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Read it."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "moon"}]},
        ],
        "tools": [{"name": "read", "input_schema": schema}],
    }
    of_responses = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Read it."},
            {"type": "function_call", "call_id": "c", "name": "read", "arguments": json.dumps(call["arguments"])},
            {"type": "function_call_output", "call_id": "c", "output": "moon"},
        ],
        "tools": [{"type": "function", "name": "read", "parameters": schema}],
    }
    first, *others = [conversation_of(body) for body in (of_chat, of_messages, of_responses)]
    assert [other.messages for other in others] == [first.messages] * 2
    assert [other.settings["tools"] for other in others] == [first.settings["tools"]] * 2 != [None] * 2
    with pytest.raises(ValueError, match="messages"):
        conversation_of({"messages": [{"role": "unknown", "content": "x"}]})


TEXTS = st.sampled_from([text(seed, words) for seed in (3, 4, 5) for words in (1, 8, 30)] + [" spaces around \n"])
TURNS = st.lists(st.tuples(TEXTS, TEXTS, st.one_of(st.none(), TEXTS)), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(sessions=st.lists(TURNS, min_size=1, max_size=3), which=st.integers(0, 4))
def test_hits_equal_those_of_the_engines_cache_for_rendered_prompts(
    templates: dict[str, ChatTemplate], sessions: list[Any], which: int
) -> None:
    """Sessions alternate, some with a shared prefix. The engine's cache gets the tokens of the full prompts."""
    template = list(templates.values())[which]
    bodies: list[dict[str, Any]] = []
    for turns in sessions:
        messages: list[dict[str, Any]] = []
        for question, answer, thought in turns:
            messages.append({"role": "user", "content": question})
            bodies.append({"model": "m", "messages": list(messages)})
            more = {} if thought is None else {"reasoning_content": thought}
            messages.append({"role": "assistant", "content": answer, **more})
    requests, verdicts = play(template, bodies)
    engine = EngineCache(num_blocks=2000, block_size=16)
    for index, (request, verdict) in enumerate(zip(requests, verdicts, strict=True)):
        assert request.held is not None
        ids = list(template.encode(template.render(conversation_of(request.body).messages, add_generation_prompt=True)))
        answer = list(chain.from_iterable(request.held.tokens))[len(ids) :]
        assert verdict.num_tokens == len(ids)
        assert verdict.hits["vllm"].num_tokens == engine.admit(index, [ids], "m", answer).num_tokens


@pytest.mark.parametrize("source", [APPENDING, None], ids=["rendered", "parts"])
@pytest.mark.parametrize(
    ("reported", "reasoning", "is_cached"),
    [
        ({}, False, True),
        ({"generated": 1}, False, True),
        ({"generated": 12}, False, True),  # the stop string is not returned
        ({"generated": 200}, False, False),
        ({"generated": 12, "reasoned": 10}, False, False),
        ({"generated": 200, "reasoned": 0}, False, True),
        ({"generated": 200, "reasoned": 190}, True, True),
    ],
)
def test_answers_after_hidden_reasoning_are_not_cached(
    reported: dict[str, int], reasoning: bool, is_cached: bool, source: str | None, templates: dict[str, ChatTemplate]
) -> None:
    """`generated` counts tokens in addition to the returned ones."""
    template = templates[source or APPENDING]
    first, second = chat(1, reasoning=reasoning), chat(2, reasoning=reasoning)
    shown = "".join(str(second["messages"][2].get(name, "")) for name in ("reasoning_content", "content"))
    num_shown = len(template.encode(shown))
    if reported:
        first |= reported | {"generated": reported["generated"] + num_shown}
    if source is None:
        player = CacheReplay(template.encode, Settings())
        verdicts = [player.run(one) for one in requests_of([first, second])]
    else:
        _, verdicts = play(template, [first, second])
    num_hit = verdicts[1].hits["sglang"].num_tokens
    assert (num_hit >= verdicts[0].num_tokens + num_shown - 1) == is_cached
    assert is_cached or num_hit <= verdicts[0].num_tokens


def test_texts_that_equal_words_of_the_template_are_distinguished(templates: dict[str, ChatTemplate]) -> None:
    texts = ["user", "assistant", "end", "|>user", "user"]
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    (request,), _ = play(templates[APPENDING], [{"model": "m", "messages": messages}])
    assert request.rendered is not None
    marks = ["<|user|>", "<|end|><|assistant|>", "<|end|><|user|>", "<|end|><|assistant|>", "<|end|><|user|>"]
    expected = [*chain.from_iterable(zip(marks, texts, strict=True)), "<|end|><|assistant|>"]
    assert [one.text for one in request.rendered.segments] == expected


def test_only_the_unshared_part_of_a_prompt_is_encoded(templates: dict[str, ChatTemplate]) -> None:
    bodies = [chat(turns, tools=("read",)) for turns in range(1, 9)]
    for source, most in ((APPENDING, 0.4), (SPECIAL, 0.4)):
        encoded = list[str]()

        def tokenize(text: str, source: str = source, encoded: list[str] = encoded) -> Tokens:
            encoded.append(text)
            return templates[source].tokenize(text)

        requests = list(rendered(requests_of(bodies), replace(templates[source], tokenize=tokenize), conversation_of))
        prompts = ["".join(one.text for one in request.rendered.segments) for request in requests if request.rendered]
        assert sum(map(len, encoded)) <= most * sum(map(len, prompts))
        for request, prompt in zip(requests, prompts, strict=True):
            assert request.rendered is not None
            assert list(chain.from_iterable(request.rendered.tokens)) == templates[source].encode(prompt)


def test_unrenderable_requests_are_reported_and_counted_by_segment(
    tmp_path: Path, templates: dict[str, ChatTemplate], capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = "{% if messages | length > 2 %}{{ raise_exception('two messages at most') }}{% endif %}" + HEAD + BODY
    folder = folder_with(refusing, tmp_path)
    with pytest.raises(CannotRender, match="request 2 cannot be rendered: two messages at most"):
        play(open_template(str(folder)), [chat(1), chat(2)])
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    with pytest.raises(CannotRender, match=r"request 1 .*parts of type text are supported, not 'image_url'"):
        play(templates[APPENDING], [{"model": "m", "messages": [image]}])
    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join(json.dumps(chat(turns)) for turns in (1, 2)))
    main(["prompts", str(file), "--tokenizer", str(folder)])
    by_parts = capsys.readouterr().out
    assert "  request 2 cannot be rendered: two messages at most\n" in by_parts
    main(["prompts", str(file), "--tokenizer", str(folder), "--html", "-", "--lang", "zh"])
    page = capsys.readouterr().out
    assert "聊天模板无法渲染请求 2：two messages at most" in page and "cannot be rendered" not in page
    main(["prompts", str(file), "--json"])
    assert f"{sum(one['num_tokens'] for one in json.loads(capsys.readouterr().out)['requests']):,} tokens" in by_parts


@pytest.mark.parametrize(
    "source", [APPENDING, TRIMMING, SPECIAL, None], ids=["appending", "trimming", "special", "parts"]
)
def test_hits_of_a_session_equal_those_of_the_engine_that_served_it(
    templates: dict[str, ChatTemplate], source: str | None
) -> None:
    """The bundled model's answers are sent back as history, with or without a template. They end at max_tokens or at a
    stop string.
    """
    template, bodies, found = templates[source or APPENDING], list[dict[str, Any]](), list[int]()
    with Engine(load_model("bundled"), EngineConfig(block_size=16, num_blocks=256, enforce_eager=True)) as engine:
        for start, limit, stop in (
            ("Who has seen the wind?", 40, []),
            ("Once upon a time", 90, ["."]),
            ("Lamb", 9, []),
        ):
            messages = [{"role": "user", "content": start}]
            for turn in range(4):
                bodies.append({"model": "m", "messages": list(messages)})
                if source is None:
                    ids = [token for one in messages for token in template.encode(one["content"])]
                else:
                    ids = list(template.encode(template.render(messages, add_generation_prompt=True)))
                request = engine.add_request(ids, SamplingParams(max_tokens=limit + turn, stop=stop))
                while engine.has_unfinished():
                    engine.step()
                bodies[-1]["generated"] = len(request.output_token_ids)
                messages.append({"role": "assistant", "content": request.text})
                messages.append({"role": "user", "content": text(turn, 5)})
        log = engine.log
        assert log is not None
        for index in range(len(log)):
            found += [op.num_hit_tokens for op in log.record(index).ops if isinstance(op, Lookup)]
    requests = requests_of(bodies)
    if source is not None:
        requests = list(rendered(requests, template, conversation_of))
    player = CacheReplay(template.encode, Settings())
    assert [player.run(request).hits["vllm"].num_tokens for request in requests] == found
    assert sum(found) > 0


@pytest.mark.parametrize("output", [[], ["--json"], ["--html", "-"]])
def test_private_output_quotes_neither_refusals_nor_unread_entries(
    output: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_with("{{ raise_exception('cannot answer ' + messages[0].content) }}", tmp_path)
    file = tmp_path / "requests.jsonl"
    unread = {"path": "/", "time": "a secret time", "request": chat(1)}
    file.write_text(f"{json.dumps(chat(1, 'A secret.'))}\n{json.dumps(unread)}")
    main(["prompts", str(file), "--tokenizer", str(folder), "--private", *output])
    shown = capsys.readouterr().out
    assert "request 1 cannot be rendered" in shown and "secret" not in shown


def test_invalid_and_missing_templates_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = folder_with("{% for m in messages %}\n{% endfo %}", tmp_path), tmp_path / "requests.jsonl"
    file.write_text(json.dumps(chat(1)))
    assert main(["prompts", str(file), "--tokenizer", str(folder)]) == 2
    assert f"cannot read the chat template of {folder}: line 2: " in capsys.readouterr().err
    (folder / "tokenizer_config.json").unlink()
    for output in ([], ["--json"], ["--html", "-"]):
        assert main(["prompts", str(file), "--tokenizer", str(folder), *output]) == 0
        assert f"{folder} has no chat template" in capsys.readouterr().out
