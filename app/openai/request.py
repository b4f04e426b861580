"""Conversion of a body to an engine request: prompts as token ids, sampling parameters, and response options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import Struct

from app.ground.errors import one_sentence
from app.models.engine_face import ServedModel, TemplateSettingError
from app.openai.bodies import ChatBody, ChatMessage, CompletionBody, SamplingBody, Tool, ToolCall
from app.openai.errors import ApiError
from app.openai.generated import ParserSettings, parser_settings, uses_tools
from engine.config import MAX_LOGPROBS, SamplingParams
from engine.options.check import out_of_range
from engine.requests.request_spec import RequestError, check_characters

COMPLETION_TOKENS = 16  # default max_tokens of completions, as in OpenAI's API
MAX_PROMPTS = 64  # in one body
NAMES: Mapping[str, str] = MappingProxyType({})  # engine's field name -> body's, if they differ


class Prompt(Struct, frozen=True, kw_only=True):
    """Prompt of a body."""

    token_ids: list[int]
    text: str | None = None  # the sent text, if it is to be echoed


class ApiRequest(Struct, frozen=True, kw_only=True):
    """Request parsed from a body."""

    kind: Literal["completion", "chat"]
    prompts: list[Prompt]
    sampling: SamplingParams
    n: int = 1
    priority: int = 0
    cache_salt: str | None = None
    stream: bool = False
    include_usage: bool = False
    continuous_usage: bool = False  # whether each chunk has the usage so far
    echo: bool = False
    only_echo: bool = False  # max_tokens 0: the prompt is scored, and the one generated token is dropped
    logprobs: int | None = None  # alternatives to return with each token; None: no log probabilities
    prompt_logprobs: int | None = None  # the same for the prompt, in a separate field
    parser_settings: ParserSettings | None = None  # None: the text is returned unparsed
    parallel_tool_calls: bool = True
    default_tokens: int | None = None  # default of max_tokens; None: as many as fit
    names: Mapping[str, str] = NAMES

    def refusal(self, error: ValueError) -> ApiError:
        """Return the API error, with the body's field, for a RequestError or a ConfigError of the engine."""
        sentence = one_sentence(error)
        field = (error.field if isinstance(error, RequestError) else field_of(sentence)) or "prompt"
        if field == "n" and self.sampling.best_of is not None:
            field = "best_of"
        is_long = "max_model_len" in sentence or "blocks" in sentence
        code = "context_length_exceeded" if is_long else None
        return ApiError(sentence, self.names.get(field, field), code=code)


def completion(body: CompletionBody, model: ServedModel, max_model_len: int | None = None) -> ApiRequest:
    """Parse a completion body. Raises ApiError, naming the field."""
    prompts = _prompts(body.prompt, model, max_model_len, bool(body.echo))
    _check_between("logprobs", body.logprobs, 0, MAX_LOGPROBS)
    n, best_of = _count("n", body.n), _count("best_of", body.n if body.best_of is None else body.best_of)
    if best_of < n:
        raise ApiError(f"best_of ({best_of}) must be at least n ({n})", "best_of")
    if body.stream and best_of > n:
        raise ApiError("best_of over n cannot be streamed, since the best answers are known only at the end", "best_of")
    only_echo = bool(body.echo) and body.max_tokens == 0
    prompt_logprobs = body.prompt_logprobs
    if body.echo and body.logprobs is not None:
        prompt_logprobs = max(body.logprobs, prompt_logprobs or 0)
    return ApiRequest(
        kind="completion",
        prompts=prompts,
        sampling=_sampling(
            body, model, 1 if only_echo else body.max_tokens, n, best_of, body.logprobs, prompt_logprobs
        ),
        default_tokens=COMPLETION_TOKENS if body.max_tokens is None else None,
        echo=bool(body.echo),
        only_echo=only_echo,
        logprobs=body.logprobs,
        prompt_logprobs=body.prompt_logprobs,
        n=n,
        **_common(body),
    )


def chat(
    body: ChatBody, model: ServedModel, max_model_len: int | None = None, names: Mapping[str, str] = NAMES
) -> ApiRequest:
    """Parse a chat body. Raises ApiError, naming the field. `names`: field names of the body before its conversion."""
    if body.top_logprobs and not body.logprobs:
        raise ApiError("top_logprobs needs logprobs: true", "top_logprobs")
    _check_between("top_logprobs", body.top_logprobs, 0, MAX_LOGPROBS)
    if None not in (body.max_tokens, body.max_completion_tokens) and body.max_tokens != body.max_completion_tokens:
        raise ApiError("max_tokens and max_completion_tokens differ; send one", "max_tokens")
    uses_old_name = body.max_completion_tokens is None
    max_tokens = body.max_tokens if uses_old_name else body.max_completion_tokens
    n = _count("n", body.n)
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    if body.tool_choice not in (None, "none", "auto"):
        reason = "this server cannot force tool calls"
        raise ApiError(f"tool_choice must be auto or none: {reason}", "tool_choice")
    tools = body.tools if body.tools and body.tool_choice != "none" else []
    settings = _effort_settings(body.reasoning_effort) | (body.chat_template_kwargs or {})
    token_ids = conversation(body.messages, model, max_model_len, settings, tools, names.get("prompt", "messages"))
    is_parallel = body.parallel_tool_calls is not False
    defaults = {"prompt": "messages", "max_tokens": "max_tokens" if uses_old_name else "max_completion_tokens"}
    names = {**defaults, **names}
    return ApiRequest(
        kind="chat",
        prompts=[Prompt(token_ids=token_ids)],
        parser_settings=parser_settings(model, token_ids, bool(tools), is_parallel),
        parallel_tool_calls=is_parallel,
        sampling=_sampling(body, model, max_tokens, n, n, logprobs, body.prompt_logprobs, names),
        names=names,
        logprobs=logprobs,
        prompt_logprobs=body.prompt_logprobs,
        n=n,
        **_common(body),
    )


def _effort_settings(effort: str | None) -> dict[str, Any]:
    """Return the chat-template variables for a reasoning effort. "none" disables thinking."""
    if effort is None:
        return {}
    return {"reasoning_effort": effort, "enable_thinking": False} if effort == "none" else {"reasoning_effort": effort}


def conversation(
    messages: Sequence[ChatMessage],
    model: ServedModel,
    max_model_len: int | None = None,
    template_settings: dict[str, Any] | None = None,
    tools: Sequence[Tool] = (),
    field: str = "messages",
) -> list[int]:
    """Render a conversation with the model's chat template or the plain one (`ServedModel.chat`). Returns token ids.

    `field`: name of the body's field with the messages, for errors.
    """
    chat: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        content = message.content
        if content is None:
            if not message.tool_calls:
                raise ApiError(f"messages[{at}].content is missing", "messages")
            content = ""
        if not isinstance(content, str):
            for place, part in enumerate(content):
                where = f"messages[{at}].content[{place}]"
                if part.type != "text":
                    raise ApiError(
                        f"{where}: only parts of type text are supported, not {part.type[:40]!r}", "messages"
                    )
                if part.text is None:
                    raise ApiError(f"{where}.text is missing", "messages")
            content = "\n".join(part.text or "" for part in content)  # as vLLM does
        chat.append({"role": "system" if message.role == "developer" else message.role, "content": content})
        if message.tool_calls:
            chat[-1]["tool_calls"] = [
                _template_call(call, f"messages[{at}].tool_calls[{i}].function.arguments")
                for i, call in enumerate(message.tool_calls)
            ]
        if message.tool_call_id is not None:
            chat[-1]["tool_call_id"] = message.tool_call_id
        if message.reasoning_content:
            chat[-1]["reasoning_content"] = message.reasoning_content
    functions = [{"type": tool.type, "function": tool.function} for tool in tools]
    if max_model_len is not None:
        _check_length(_num_characters([chat, functions]), max_model_len, field)
    if not model.has_chat_template and (functions or any(one["role"] == "tool" or "tool_calls" in one for one in chat)):
        raise ApiError("tools need a chat template, which this model lacks", "tools" if functions else field)
    try:
        token_ids = model.chat(chat, template_settings or {}, functions)
    except TemplateSettingError as error:
        raise ApiError(f"chat_template_kwargs: {error}", "chat_template_kwargs") from error
    except ValueError as error:
        raise ApiError(f"{field}: {error}", field) from error
    if functions and not uses_tools(model.chat_template):
        reason = f"the chat template of {model.facts.name} does not use tools"
        raise ApiError(f"{reason}: send none, or choose a model whose template does", "tools")
    return token_ids


def _template_call(call: ToolCall, where: str) -> dict[str, Any]:
    """Return a tool call for a template, with its arguments as an object."""
    function = {"name": call.function.name, "arguments": parse_arguments(call.function.arguments, where)}
    return {"id": call.id, "type": call.type, "function": function}


def parse_arguments(value: str | dict[str, Any], where: str) -> dict[str, Any]:
    """Return the arguments of a tool call as an object. `where`: their place in the body, for an ApiError."""
    arguments: Any = value or {}
    field = where.partition("[")[0]
    if isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ApiError(f"{where} is not JSON: {error}", field) from error
    if not isinstance(arguments, dict):
        raise ApiError(f"{where} must be a JSON object", field)
    return arguments


def _num_characters(value: Any) -> int:
    """Return the number of characters of all texts in a JSON value."""
    total, stack = 0, [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, dict):
            stack += [*one, *one.values()]
        elif isinstance(one, list):
            stack += one
    return total


class _Common(TypedDict):
    priority: int
    cache_salt: str | None
    stream: bool
    include_usage: bool
    continuous_usage: bool


def _common(body: SamplingBody) -> _Common:
    options = body.stream_options
    if options is not None and not body.stream:
        raise ApiError("stream_options needs stream: true", "stream_options")
    if body.prompt_logprobs is not None and body.stream:
        raise ApiError("prompt_logprobs cannot be streamed; omit it or stream", "prompt_logprobs")
    return {
        "priority": body.priority or 0,
        "cache_salt": body.cache_salt,
        "stream": bool(body.stream),
        "include_usage": bool(options and options.include_usage),
        "continuous_usage": bool(options and options.include_usage and options.continuous_usage_stats),
    }


def _sampling(
    body: SamplingBody,
    model: ServedModel,
    max_tokens: int | None,
    n: int,
    best_of: int,
    logprobs: int | None,
    prompt_logprobs: int | None,
    names: Mapping[str, str] = NAMES,
) -> SamplingParams:
    stop = [body.stop] if isinstance(body.stop, str) else body.stop or []
    fields = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": 0 if body.top_k == -1 else body.top_k,  # -1 disables top-k in vLLM
        "min_p": body.min_p,
        "repetition_penalty": body.repetition_penalty,
        "seed": body.seed,
        "stop": stop,
        "stop_token_ids": body.stop_token_ids,
        "ignore_eos": body.ignore_eos,
        "min_tokens": body.min_tokens,
        "logit_bias": _logit_bias(body.logit_bias),
    }
    sampling = SamplingParams(
        max_tokens=max_tokens,
        n=n,
        best_of=best_of if best_of != n else None,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
        **{"temperature": 1.0}
        | model.default_sampling
        | {name: value for name, value in fields.items() if value is not None},  # type: ignore[arg-type]
    )
    if wrong := out_of_range(sampling):
        field = field_of(wrong) or ""
        name = names.get(field, field)
        raise ApiError(name + wrong.removeprefix(field), name)
    if sampling.num_sequences > 1 and sampling.temperature == 0:
        many = "n" if n > 1 else "best_of"
        raise ApiError(f"with temperature 0 all {many} answers would be equal; set a temperature", many)
    return sampling


def field_of(sentence: str) -> str | None:
    """Return the field that an error message of the engine begins with, or None."""
    word = sentence.split(" ", 1)[0].rstrip(":,")
    return word if word in SamplingParams.__struct_fields__ else None


def _logit_bias(biases: dict[str, float] | None) -> dict[int, float] | None:
    if biases is None:
        return None
    if not all(name.isdecimal() and len(name) < 10 for name in biases):
        raise ApiError('the keys of logit_bias must be token ids, as in {"42": -100}', "logit_bias")
    return {int(name): bias for name, bias in biases.items()}


def _prompts(
    prompt: str | list[str | int | list[int]], model: ServedModel, max_model_len: int | None, keep_texts: bool
) -> list[Prompt]:
    """Parse OpenAI's four forms: text, token ids, and lists of either. `keep_texts`: keep texts for the echo."""

    def from_text(text: str) -> Prompt:
        return _tokenize(text, model, max_model_len, keep_texts)

    def from_token_ids(token_ids: list[int]) -> Prompt:
        if max_model_len is not None and len(token_ids) >= max_model_len:
            message = f"the prompt has {len(token_ids)} tokens; with one to generate that is over max_model_len "
            raise ApiError(f"{message}{max_model_len}", "prompt", code="context_length_exceeded")
        return Prompt(token_ids=token_ids)

    if isinstance(prompt, str):
        return [from_text(prompt)]
    if not prompt:
        raise ApiError("prompt is an empty list", "prompt")
    if all(isinstance(one, int) for one in prompt):
        return [from_token_ids([one for one in prompt if isinstance(one, int)])]
    if len(prompt) > MAX_PROMPTS:
        raise ApiError(f"a request may have at most {MAX_PROMPTS} prompts, not {len(prompt)}", "prompt")
    if all(isinstance(one, str) for one in prompt):
        return [from_text(one) for one in prompt if isinstance(one, str)]
    if all(isinstance(one, list) for one in prompt):
        return [from_token_ids(one) for one in prompt if isinstance(one, list)]
    raise ApiError("prompt mixes texts and token ids; send one kind", "prompt")


def _tokenize(text: str, model: ServedModel, max_model_len: int | None, keep_text: bool) -> Prompt:
    """Encode a text, on the worker thread, since the engine's thread is reserved for steps."""
    if not model.tokenizer_facts.name:
        raise ApiError("this model has no tokenizer; send token ids", "prompt")
    _check_length(len(text), max_model_len, "prompt")
    return Prompt(token_ids=model.encode(model.normalize(text)), text=text if keep_text else None)


def _check_length(num_characters: int, max_model_len: int | None, field: str) -> None:
    try:
        check_characters(num_characters, num_characters if max_model_len is None else max_model_len)
    except RequestError as error:
        raise ApiError(str(error), field, code="context_length_exceeded") from error


def _count(name: str, value: int | None) -> int:
    _check_between(name, value, 1, 128)
    return value or 1


def _check_between(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ApiError(f"{name} must be between {low} and {high}, not {value}", name)
