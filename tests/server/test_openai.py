"""OpenAI's own client against the bundled model: its results equal the log's, and those of the engine alone."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
import requests
from openai import AsyncOpenAI

from engine.config import SamplingParams
from engine.engine import Engine
from engine.model.loader import load_model
from engine.trace.operations import Fork, Submit
from tests.server.apis import CONFIG, Api, served_api
from tests.server.conftest import wait_for

POEM = "春江潮水连海平，"
STORY = "Once upon a time"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served_api() as found:
        yield found


def alone(prompt: str, **sampling: object) -> str:
    """Return the bare engine's text."""
    with Engine(load_model("bundled"), CONFIG, keep_log=False) as engine:
        request = engine.add_request(prompt, SamplingParams(**sampling))  # type: ignore[arg-type]
        while engine.has_unfinished():
            engine.step()
        return request.text


def test_a_completion_is_the_engines(api: Api) -> None:
    found = api.client().completions.create(model="bundled", prompt=POEM, max_tokens=24, temperature=0)
    assert found.choices[0].text == alone(POEM, max_tokens=24)
    assert found.choices[0].finish_reason in ("stop", "length") and found.object == "text_completion"
    assert (
        found.usage is not None
        and found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens
    )


def test_a_stream_ends_with_one_reason_and_the_usage(api: Api) -> None:
    stream = api.client().chat.completions.create(
        model="bundled",
        messages=[{"role": "user", "content": POEM}],
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content
    assert not any(chunk.choices[0].delta.role for chunk in chunks[1:])
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in [*chunks, last]}) == 1
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons[-1] in ("stop", "length") and not any(reasons[:-1])
    assert all(chunk.usage is None for chunk in chunks) and last.choices == []
    assert last.usage is not None and last.usage.prompt_tokens == 8
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == alone(POEM, max_tokens=24)


def test_each_chunk_has_the_usage_so_far_on_request(api: Api) -> None:
    """guidellm requests this with every request."""
    stream = api.client().chat.completions.create(  # type: ignore[call-overload]
        model="bundled",
        messages=[{"role": "user", "content": POEM}],
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},  # vLLM's
    )
    counts = [chunk.usage.completion_tokens if chunk.usage else 0 for chunk in stream]
    assert counts[0] >= 1 and counts == sorted(counts) and counts[-1] == counts[-2] == 24


def test_chunks_are_the_tokens_bytes_and_split_no_character(api: Api) -> None:
    stream = api.client().chat.completions.create(
        model="bundled",
        messages=[{"role": "user", "content": "The rare word is 魑魅魍魉，"}],
        max_tokens=60,
        temperature=1.5,
        seed=5,
        logprobs=True,
        stream=True,
    )
    text, data, split = "", b"", 0
    for chunk in stream:
        (choice,) = chunk.choices
        text += choice.delta.content or ""
        assert choice.logprobs is not None and choice.logprobs.content is not None
        for token in choice.logprobs.content:
            data += bytes(token.bytes or ())
            split += token.token.startswith("bytes:")
        assert text == data.decode("utf-8", "replace") or choice.finish_reason
    assert split, "some token is a piece of a character"


def test_usage_reports_cached_tokens(api: Api) -> None:
    prompt = "A story about a fox who lived in the wood and had a secret that nobody knew but the owl"
    client = api.client()
    first, second = (
        client.completions.create(model="bundled", prompt=prompt, max_tokens=2, temperature=0).usage for _ in range(2)
    )
    assert first is not None and second is not None and second.prompt_tokens_details is not None
    cached = second.prompt_tokens_details.cached_tokens
    assert cached == (second.prompt_tokens - 1) // CONFIG.block_size * CONFIG.block_size > 0
    assert first.prompt_tokens_details is not None and first.prompt_tokens_details.cached_tokens == 0


def test_another_salt_shares_nothing(api: Api) -> None:
    prompt = "A tale of a hedgehog who had walked for many days until he came to the sea"
    for salt, cached in (("a", False), ("a", True), ("b", False)):
        usage = (
            api.client()
            .completions.create(model="bundled", prompt=prompt, max_tokens=1, extra_body={"cache_salt": salt})
            .usage
        )
        assert usage is not None and usage.prompt_tokens_details is not None
        assert bool(usage.prompt_tokens_details.cached_tokens) == cached


def test_n_completions_are_forks_of_one_prompt(api: Api) -> None:
    answer = api.client().completions.with_raw_response.create(
        model="bundled", prompt=STORY, n=3, max_tokens=8, seed=11, temperature=1
    )
    record = int(answer.headers["x-kvtheater-record"])
    found = answer.parse()
    assert [choice.index for choice in found.choices] == [0, 1, 2]
    assert len({choice.text for choice in found.choices}) == 3
    assert found.usage is not None and found.usage.prompt_tokens == 5
    ops = [op for log in api.records()[record:] for op in log.ops]
    submits = [op for op in ops if isinstance(op, Submit) and op.request_id == found.id]
    assert len(submits) == 1 and sum(isinstance(op, Fork) and op.request_id == found.id for op in ops) == 2
    again = api.client().completions.create(model="bundled", prompt=STORY, n=3, max_tokens=8, seed=11, temperature=1)
    assert [c.text for c in again.choices] == [c.text for c in found.choices], "a seed says it all"


def test_choices_of_a_stream_are_indexed_and_end_once(api: Api) -> None:
    texts: dict[int, str] = {}
    ends: dict[int, int] = {}
    stream = api.client().completions.create(
        model="bundled", prompt=[STORY, POEM], n=2, max_tokens=6, seed=4, temperature=1, stream=True
    )
    for chunk in stream:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            ends[choice.index] = ends.get(choice.index, 0) + (choice.finish_reason is not None)
    assert sorted(texts) == [0, 1, 2, 3] and ends == dict.fromkeys(range(4), 1)
    whole = api.client().completions.create(
        model="bundled", prompt=[STORY, POEM], n=2, max_tokens=6, seed=4, temperature=1
    )
    assert [texts[i] for i in range(4)] == [choice.text for choice in whole.choices]


def test_the_best_of_several_are_those_with_the_highest_probability(api: Api) -> None:
    found = api.client().completions.create(
        model="bundled", prompt=STORY, n=2, best_of=5, max_tokens=6, seed=1, temperature=1, logprobs=0
    )
    sums = [sum(choice.logprobs.token_logprobs or []) for choice in found.choices if choice.logprobs]  # type: ignore[arg-type]
    everyone = api.client().completions.create(
        model="bundled", prompt=STORY, n=5, max_tokens=6, seed=1, temperature=1, logprobs=0
    )
    every = sorted((sum(c.logprobs.token_logprobs or []) for c in everyone.choices if c.logprobs), reverse=True)  # type: ignore[arg-type]
    assert sums == pytest.approx(every[:2])


def test_the_best_of_several_that_end_at_different_steps(api: Api) -> None:
    found = api.client().completions.create(
        model="bundled", prompt=STORY, n=2, best_of=6, max_tokens=60, seed=2, temperature=1.2, stop=["e", "s"]
    )
    lengths = {choice.finish_reason for choice in found.choices}
    assert len(found.choices) == 2 and lengths == {"stop"}


def test_offsets_are_those_of_the_text_where_characters_are_split_over_tokens(api: Api) -> None:
    whole = api.client().completions.create(
        model="bundled", prompt="魑魅魍魉龘靐", echo=True, max_tokens=0, logprobs=0, temperature=0
    )
    (choice,) = whole.choices
    assert (
        choice.logprobs is not None and choice.logprobs.tokens is not None and choice.logprobs.text_offset is not None
    )
    assert any(token.startswith("bytes:") for token in choice.logprobs.tokens), "rare characters are several tokens"
    for token, at in zip(choice.logprobs.tokens, choice.logprobs.text_offset, strict=True):
        if not token.startswith("bytes:"):
            assert choice.text[at : at + len(token)] == token
    assert choice.logprobs.text_offset[-1] <= len(choice.text) - 1


def test_an_echo_with_log_probabilities_scores_the_prompt(api: Api) -> None:
    found = api.client().completions.create(
        model="bundled", prompt=STORY, echo=True, max_tokens=0, logprobs=3, temperature=0
    )
    (choice,) = found.choices
    assert choice.text == STORY and found.usage is not None and found.usage.completion_tokens == 0
    assert choice.logprobs is not None and choice.logprobs.tokens is not None
    assert "".join(choice.logprobs.tokens) == STORY and choice.logprobs.token_logprobs is not None
    assert choice.logprobs.token_logprobs[0] is None and all(lp < 0 for lp in choice.logprobs.token_logprobs[1:])  # type: ignore[operator]
    assert choice.logprobs.text_offset == [STORY.index(token) for token in choice.logprobs.tokens]


def test_the_requested_number_of_alternatives_includes_the_chosen_one(api: Api) -> None:
    found = api.client().chat.completions.create(
        model="bundled",
        messages=[{"role": "user", "content": STORY}],
        max_tokens=5,
        temperature=0,
        logprobs=True,
        top_logprobs=9,
    )
    logprobs = found.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None and len(logprobs.content) == 5
    for token in logprobs.content:
        assert len(token.top_logprobs) == 9 and token.top_logprobs[0].logprob == token.logprob
        assert bytes(token.bytes or ()).decode() == token.token


def test_stop_strings_end_the_answer_and_are_not_in_it(api: Api) -> None:
    whole = alone(STORY, max_tokens=30)
    stop = whole[12:16]
    found = api.client().completions.create(model="bundled", prompt=STORY, max_tokens=30, temperature=0, stop=stop)
    assert found.choices[0].text == whole[: whole.index(stop)] and found.choices[0].finish_reason == "stop"


def test_every_answer_links_to_its_record(api: Api) -> None:
    answer = api.post(prompt=STORY, max_tokens=2)
    record, theater = int(answer.headers["X-KVTheater-Record"]), answer.headers["X-KVTheater-Theater"]
    submit = api.records()[record].ops[0]
    assert isinstance(submit, Submit) and submit.request_id == answer.json()["id"] and submit.client == "anonymous"
    assert f"theater={theater}" in answer.headers["X-KVTheater-Link"]
    listed = {one["theater"]: one for one in requests.get(f"{api.url}/api/theaters").json()["theaters"]}
    assert listed[theater]["name"] == "API" and listed[theater]["status"]["api"] == {"waiting": {}, "active": 0}


def test_clients_are_identified_by_keys_that_are_not_stored(api: Api) -> None:
    for key in ("hush-hush-one", "hush-hush-two"):
        api.client(key).completions.create(model="bundled", prompt="x", max_tokens=1)
    clients = [op.client for record in api.records()[-6:] for op in record.ops if isinstance(op, Submit)]
    assert len(set(clients)) == 2 and all(str(client).startswith("key-") for client in clients)
    with api.served.session.run.reading() as log:
        assert all(b"hush-hush" not in log.record_bytes(i) for i in range(len(log)))


def test_a_request_may_name_a_theater_of_the_page(api: Api) -> None:
    theater = api.app.extensions["kvtheater"].create(CONFIG, "mine")
    answer = api.post(prompt=STORY, max_tokens=2, theater=theater.session_id)
    assert answer.status_code == 200 and answer.headers["X-KVTheater-Theater"] == theater.session_id
    with theater.run.reading() as log:
        assert len(log) == 3
    assert api.post(prompt=STORY, theater="nowhere").json()["error"]["param"] == "theater"


def test_asynchronous_clients_and_some_that_cancel(api: Api) -> None:
    async def one(client: AsyncOpenAI, number: int) -> int | None:
        stream = await client.completions.create(
            model="bundled", prompt=f"{STORY} number {number}", max_tokens=30, temperature=0, stream=True,
            extra_body={"ignore_eos": True},
        )  # fmt: skip
        count = 0
        async for _ in stream:
            count += 1
            if number % 3 == 0 and count == 3:
                await stream.close()
                return None
        return count

    async def everybody() -> list[int | None]:
        async with AsyncOpenAI(base_url=f"{api.url}/v1", api_key="x", max_retries=0) as client:
            return await asyncio.gather(*(one(client, i) for i in range(24)))

    with ThreadPoolExecutor(1) as thread:  # a browser of another test may have a loop on this one
        found = thread.submit(asyncio.run, everybody()).result()
    assert [count is None for count in found] == [i % 3 == 0 for i in range(24)] and all(
        c is None or c > 1 for c in found
    )
    wait_for(lambda: api.held() == 0 and api.served.engine.num_active == 0, "everything given back")


def test_a_disconnect_aborts_and_frees_blocks_in_one_record(api: Api) -> None:
    before = len(api.records())
    connection = api.open(prompt=STORY, max_tokens=400, ignore_eos=True, stream=True)
    connection.recv(200)
    connection.close()
    wait_for(lambda: any(record.kind == "abort" for record in api.records()[before:]), "an abort")
    abort = next(record for record in api.records()[before:] if record.kind == "abort")
    assert abort.memory.blocks_held == 0 and {type(op).__name__ for op in abort.ops} == {"Free", "Finish"}


def test_a_client_that_disconnects_before_its_answer_is_noticed(api: Api) -> None:
    connection = api.open(prompt=STORY, max_tokens=900, ignore_eos=True)
    wait_for(lambda: api.served.engine.num_active == 1)
    connection.close()
    wait_for(lambda: api.served.engine.num_active == 0 and api.held() == 0, "its blocks")


def test_a_slow_reader_holds_neither_the_engine_nor_blocks(api: Api) -> None:
    slow = api.open(prompt=STORY, max_tokens=900, ignore_eos=True, stream=True)
    quick = api.client().completions.create(model="bundled", prompt=POEM, max_tokens=4, temperature=0)
    assert quick.choices[0].text
    wait_for(lambda: api.held() == 0, "the slow one's request to end", seconds=60)
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        data += slow.recv(1 << 16)
    assert data.count(b"[DONE]") == 1
    slow.close()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: c.completions.create(model="nobody", prompt="x"), openai.NotFoundError),
        (lambda c: c.completions.create(model="bundled", prompt="x", max_tokens=10**6), openai.BadRequestError),
        (lambda c: c.embeddings.create(model="bundled", input="x"), openai.NotFoundError),
        (lambda c: c.models.retrieve("nobody"), openai.NotFoundError),
        (lambda c: c.completions.create(model="", prompt="x", extra_body={"priority": 3}), openai.NotFoundError),
    ],
)  # fmt: skip
def test_refusals_are_the_clients_exceptions(api: Api, call, error: type[openai.APIStatusError]) -> None:
    with pytest.raises(error) as refused:
        call(api.client())
    assert isinstance(refused.value.body, dict) and set(refused.value.body) == {"message", "type", "param", "code"}
    assert api.client().completions.create(model="bundled", prompt="x", max_tokens=1).choices


def test_the_small_addresses(api: Api) -> None:
    assert requests.get(f"{api.url}/health").status_code == requests.get(f"{api.url}/ping").status_code == 200
    assert requests.get(f"{api.url}/version").json()["version"]
    (listed,) = requests.get(f"{api.url}/v1/models").json()["data"]
    assert requests.get(f"{api.url}/v1/models/").json()["data"] == [listed]
    assert (listed["id"], listed["max_model_len"], listed["chat_template"]) == ("bundled", 1024, "plain")
    tokens = api.post("/tokenize", prompt=POEM).json()
    assert tokens["count"] == 8 == len(tokens["tokens"])
    assert api.post("/detokenize", tokens=tokens["tokens"]).json()["prompt"].strip() == POEM
    chat = api.post("/tokenize", messages=[{"role": "user", "content": POEM}], return_token_strs=True).json()
    assert chat["tokens"] == tokens["tokens"] and "".join(chat["token_strs"]).strip() == POEM
    assert requests.get(f"{api.url}/v1/audio").json()["error"]["message"] == "there is no /v1/audio here"
    assert "vllm:num_requests_running" in requests.get(f"{api.url}/metrics").text
