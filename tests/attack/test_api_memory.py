"""Memory that an API request may hold on the server is bounded, refused early, and freed."""

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
import requests

from app.openai.errors import ApiError
from app.openai.memory_budget import MAX_OF_ALL, MAX_OF_CLIENT, MemoryBudget
from tests.server.apis import Api, served_api
from tests.server.waiting import wait_for

MIB = 1024 * 1024
MANY = 16  # requests, of which four bodies at a time are taken
HUGE: dict[str, dict[str, Any]] = {
    "a stop string": {"stop": "a" * (7 * MIB)},
    "stop strings": {"stop": ["abcdefg"] * 500_000},
    "stop token ids": {"stop_token_ids": [123456] * 900_000},
    "biases": {"logit_bias": {str(i): 1 for i in range(300_000)}},
    "a prompt": {"prompt": "word " * 1_000_000},
    "token ids": {"prompt": [7] * 1_000_000},
    "nothing but lists": {"prompt": [[]] * 2_000_000},
}


@pytest.fixture
def api() -> Iterator[Api]:
    with served_api() as found:
        yield found


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HUGE)
def test_a_huge_field_is_refused_and_nothing_of_it_stays(api: Api, kind: str) -> None:
    """Another client is answered meanwhile; afterwards the memory is returned to the system."""
    body = {"model": "bundled", "prompt": "Once", "max_tokens": 4} | HUGE[kind]
    usual = {"model": "bundled", "prompt": "Once", "max_tokens": 4}
    url = f"{api.url}/v1/completions"
    requests.post(url, json=usual, timeout=60).raise_for_status()
    before, waits = resident(), list[float]()
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(requests.post, url, json=body, timeout=60) for _ in range(MANY)]
        while not all(one.done() for one in sent):
            began = time.monotonic()
            requests.post(url, json=usual, timeout=60).raise_for_status()
            waits.append(time.monotonic() - began)
        statuses = {one.result().status_code for one in sent}
    del sent, body
    print(kind, statuses, f"waits {max(waits):.2f} s at most")
    assert statuses <= {400, 503, 429} and 400 in statuses
    assert max(waits) < 20  # on cores that other tests keep busy; over 60 where matching is quadratic
    wait_for(lambda: resident() - before < 384 * MIB, f"{(resident() - before) // MIB} MiB more; less", 60)


def test_waiting_requests_are_bounded_per_client_and_in_total() -> None:
    budget = MemoryBudget()
    first = [budget.allocate("one", MAX_OF_CLIENT // 4) for _ in range(4)]
    with pytest.raises(ApiError) as refused:
        budget.allocate("one", 1)
    assert refused.value.status == 429
    rest = [budget.allocate(f"other {i}", MAX_OF_CLIENT) for i in range(MAX_OF_ALL // MAX_OF_CLIENT - 1)]
    with pytest.raises(ApiError):
        budget.allocate("another", 1)
    for over in (*first, *rest, *first):
        over()
    assert budget.total == 0


@pytest.mark.slow
def test_a_client_that_leaves_holds_nothing(api: Api) -> None:
    body = {"model": "bundled", "prompt": "Once", "max_tokens": 800, "ignore_eos": True, "stream": True}
    gc.collect()
    budgets = [one for one in gc.get_objects() if type(one) is MemoryBudget]
    with requests.post(f"{api.url}/v1/completions", json=body, timeout=60, stream=True) as answer:
        assert answer.status_code == 200 and any(one.total for one in budgets)
    wait_for(lambda: not any(one.total for one in budgets))
