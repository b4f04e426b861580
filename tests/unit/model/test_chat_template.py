"""Conversations rendered by a model's chat template, with a client's settings."""

from typing import Any

import pytest

from engine.model.errors import TemplateSettingError
from engine.model.loader import load_model
from engine.model.tokenizer import Tokenizer
from tests.tiny_models import tiny_tokenizer

THINKING = (
    "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}ab{% else %}a{% endif %}"
)


def test_a_template_gets_the_clients_settings() -> None:
    wrapped = tiny_tokenizer()
    wrapped.chat_template = THINKING
    tokenizer, messages = Tokenizer(wrapped), [{"role": "user", "content": "b"}]
    assert tokenizer.chat(messages) == tokenizer.chat(messages, {"enable_thinking": True}) == tokenizer.encode("ba")
    assert tokenizer.chat(messages, {"enable_thinking": False}) == tokenizer.encode("bab")
    for name in ("tokenize", "chat_template", "messages", "add_generation_prompt"):
        with pytest.raises(TemplateSettingError, match=f"^{name} is not a variable"):
            tokenizer.chat(messages, {name: "x"})


def test_a_template_gets_tools_and_tool_calls() -> None:
    wrapped = tiny_tokenizer()
    wrapped.chat_template = (
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.arguments.b }}{% endfor %}{% endfor %}"
    )
    tokenizer = Tokenizer(wrapped)
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": {"b": "ab"}}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "b"}]
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    tools = [{"type": "function", "function": {"name": "a"}}]
    assert tokenizer.chat(messages, {}, tools) == tokenizer.encode("abab")
    assert tokenizer.chat(messages) == tokenizer.encode("bab")


def test_the_generation_config_gives_default_sampling_parameters() -> None:
    model = load_model("bundled")
    assert model.default_sampling == {}
    config = model.module.generation_config
    config.temperature, config.top_p, config.top_k = 0.6, 0.9, -1
    assert model.default_sampling == {"temperature": 0.6, "top_p": 0.9}
