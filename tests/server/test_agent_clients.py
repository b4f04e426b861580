"""Frameworks and SDKs of agents against the API: each calls a tool, returns its result and gets the answer.

A client that is not installed is skipped. `pip install langchain langchain-openai langchain-anthropic openai-agents
pydantic-ai-slim[openai,anthropic] smolagents claude-agent-sdk` installs all of them.
"""

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.config import EngineConfig
from tests.scripted_model import hermes
from tests.server.apis import Api
from tests.server.scripted import LOOK, SAYS, scripted_api

QUESTION, FILE = "What does a.txt say?", "春江."
SAID = "".join(SAYS)
Run = Callable[[Coroutine[Any, Any, Any]], Any]
SHAPES = ("chat", "responses", "messages")


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with scripted_api(tmp_path_factory.mktemp("model") / "scripted") as found:
        yield found


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run in one loop of another thread: LangChain keeps a client for the next model, and a test that drives a browser
    leaves a running loop in this thread.
    """
    with ThreadPoolExecutor(1) as thread, asyncio.Runner() as runner:
        yield lambda work: thread.submit(runner.run, work).result()
        thread.submit(runner.close).result()


class Tool:
    """Tool `read`, and the paths of its calls."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, path: str) -> str:
        self.paths.append(path)
        return FILE


def chat_model(api: Api, shape: str) -> Any:
    """Return LangChain's model for an API."""
    if shape == "messages":
        of = importlib.import_module("langchain_anthropic").ChatAnthropic
        return of(model="scripted", base_url=api.url, api_key="me", max_tokens=50, max_retries=0)
    of = importlib.import_module("langchain_openai").ChatOpenAI
    more = {"use_responses_api": shape == "responses", "max_retries": 0, "stream_usage": True}
    return of(model="scripted", base_url=f"{api.url}/v1", api_key="me", max_tokens=50, **more)


def langchain_tool(tool: Tool) -> Any:
    def read(path: str) -> str:
        """Read a file."""
        return tool(path)

    return importlib.import_module("langchain_core.tools").tool(read)


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content if isinstance(block, dict))


@needs("langchain_openai", "langchain_anthropic")
@pytest.mark.parametrize("shape", SHAPES)
def test_langchain_calls_a_tool_whole_streamed_and_in_parallel(api: Api, run: Run, shape: str) -> None:
    tool = Tool()
    model = chat_model(api, shape).bind_tools([langchain_tool(tool)])
    reply = model.invoke(QUESTION)
    assert text_of(reply.content).rstrip() == "".join(LOOK).rstrip()
    assert [(call["name"], call["args"]) for call in reply.tool_calls] == [("read", {"path": "a.txt"})]
    whole = None
    for chunk in model.stream(QUESTION):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None and text_of(whole.content).rstrip() == text_of(reply.content).rstrip()
    assert [call["args"] for call in whole.tool_calls] == [{"path": "a.txt"}]
    assert whole.usage_metadata["output_tokens"] == reply.usage_metadata["output_tokens"]

    messages: Any = importlib.import_module("langchain_core.messages")
    result = messages.ToolMessage(FILE, tool_call_id=reply.tool_calls[0]["id"])
    history = [messages.HumanMessage(QUESTION), reply, result]

    async def several() -> list[Any]:
        return await asyncio.gather(*(model.ainvoke(history) for _ in range(4)))

    for answer in run(several()):
        assert text_of(answer.content) == SAID
        assert answer.usage_metadata["input_token_details"]["cache_read"] > 0


@needs("langchain", "langchain_openai", "langchain_anthropic")
@pytest.mark.parametrize("shape", SHAPES)
def test_langchains_agent_answers(api: Api, shape: str) -> None:
    tool = Tool()
    agents: Any = importlib.import_module("langchain.agents")
    agent = agents.create_agent(chat_model(api, shape), [langchain_tool(tool)], system_prompt="You read files.")
    found = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})
    assert text_of(found["messages"][-1].content) == SAID and tool.paths == ["a.txt"]


@needs("langchain_openai", "langchain_anthropic")
@pytest.mark.parametrize("shape", SHAPES)
def test_langchain_raises_the_errors_of_each_api(api: Api, shape: str) -> None:
    errors = importlib.import_module("anthropic" if shape == "messages" else "openai")
    with pytest.raises(errors.NotFoundError) as refused:
        chat_model(api, shape).bind(model="other").invoke(QUESTION)
    assert refused.value.body["error" if shape == "messages" else "message"]
    with pytest.raises(errors.BadRequestError):
        chat_model(api, shape).invoke(QUESTION, temperature=-1.0)


@needs("agents")
@pytest.mark.parametrize("shape", SHAPES[:2])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["", "streamed"])
def test_openais_agents_sdk_answers(api: Api, run: Run, shape: str, is_streamed: bool) -> None:
    agents: Any = importlib.import_module("agents")
    openai: Any = importlib.import_module("openai")
    agents.set_tracing_disabled(True)
    tool = Tool()

    def read(path: str) -> str:
        """Read a file."""
        return tool(path)

    async def answer() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{api.url}/v1", api_key="me", max_retries=0) as client:
            of = agents.OpenAIResponsesModel if shape == "responses" else agents.OpenAIChatCompletionsModel
            agent = agents.Agent(
                name="reader",
                instructions="You read files.",
                model=of("scripted", client),
                tools=[agents.function_tool(read)],
            )
            if not is_streamed:
                return await agents.Runner.run(agent, QUESTION)
            streamed = agents.Runner.run_streamed(agent, QUESTION)
            async for _ in streamed.stream_events():
                pass
            return streamed

    assert run(answer()).final_output == SAID and tool.paths == ["a.txt"]


@needs("pydantic_ai")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["", "streamed"])
def test_pydantic_ai_answers(api: Api, run: Run, shape: str, is_streamed: bool) -> None:
    pydantic_ai: Any = importlib.import_module("pydantic_ai")
    tool = Tool()

    def read(path: str) -> str:
        """Read a file."""
        return tool(path)

    def model() -> Any:
        if shape == "messages":
            provider: Any = importlib.import_module("pydantic_ai.providers.anthropic")
            client = importlib.import_module("anthropic").AsyncAnthropic(base_url=api.url, api_key="me", max_retries=0)
            of = importlib.import_module("pydantic_ai.models.anthropic").AnthropicModel
            return of("scripted", provider=provider.AnthropicProvider(anthropic_client=client))
        models: Any = importlib.import_module("pydantic_ai.models.openai")
        provider = importlib.import_module("pydantic_ai.providers.openai")
        of = models.OpenAIResponsesModel if shape == "responses" else models.OpenAIChatModel
        return of("scripted", provider=provider.OpenAIProvider(base_url=f"{api.url}/v1", api_key="me"))

    async def answer() -> str:
        agent = pydantic_ai.Agent(model(), system_prompt="You read files.", tools=[read])
        if not is_streamed:
            return str((await agent.run(QUESTION)).output)
        async with agent.run_stream(QUESTION) as streamed:
            return str(await streamed.get_output())

    found = run(answer())
    if is_streamed:  # it ends a stream at its first text, which this model says before it calls
        assert found.rstrip() == "".join(LOOK).rstrip()
    else:
        assert found == SAID and tool.paths == ["a.txt"]


@needs("smolagents")
def test_smolagents_calls_a_tool(api: Api) -> None:
    smolagents: Any = importlib.import_module("smolagents")
    tool = Tool()

    @smolagents.tool  # type: ignore[untyped-decorator]
    def read(path: str) -> str:
        """Read a file.

        Args:
            path: The file's path.
        """
        return tool(path)

    model = smolagents.OpenAIServerModel("scripted", api_base=f"{api.url}/v1", api_key="me", tool_choice="auto")
    agent = smolagents.ToolCallingAgent(tools=[read], model=model, max_steps=1, verbosity_level=0)
    agent.run(QUESTION)
    assert tool.paths == ["a.txt"]


@pytest.mark.slow
@pytest.mark.timeout(900)  # its prompts have over 50,000 tokens of this tokenizer
@needs("claude_agent_sdk")
def test_claude_code_reads_a_file_and_answers(run: Run, tmp_path: Path) -> None:
    """The whole coding agent runs, with its own tools, system prompt and streams."""
    sdk: Any = importlib.import_module("claude_agent_sdk")
    file = tmp_path / "a.txt"
    file.write_text(FILE)
    scripts = {"user": [*LOOK, *hermes("Read", file_path=str(file))], "tool": SAYS}
    config = EngineConfig(block_size=16, num_blocks=16_384, max_num_seqs=4, enforce_eager=True)
    with scripted_api(tmp_path / "scripted", scripts, num_positions=1 << 17, config=config) as api:
        environment = {
            "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "me", "HOME": str(tmp_path), "PATH": os.environ["PATH"],
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
        }  # fmt: skip

        async def answers() -> list[Any]:
            options = sdk.ClaudeAgentOptions(
                model="scripted", env=environment, cwd=str(tmp_path), allowed_tools=["Read"], max_turns=3
            )
            return [message async for message in sdk.query(prompt=QUESTION, options=options)]

        *_, last = run(answers())
    assert (last.subtype, last.result) == ("success", SAID), last
