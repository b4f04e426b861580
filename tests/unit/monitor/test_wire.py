"""Messages of vLLM, captured over ZeroMQ, and the contents reconstructed from them."""

from collections import Counter
from typing import Any

import msgspec

from engine.observe.monitor.metrics import parse_metrics
from engine.observe.monitor.observed_log import ObservedLog, header_of
from engine.observe.monitor.sequence import Break, Message
from tests.golden.observed import WIRE

METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 7.0
vllm:request_success_created{engine="0",finished_reason="stop",model_name="m"} 1.79e+09
# HELP vllm:time_to_first_token_seconds Histogram.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 1.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 1.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1.0
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",engine="0",num_cpu_blocks="None",num_gpu_blocks="512"} 1.0
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.79e+09
"""


def test_the_contents_after_each_message_equal_an_independent_decoder() -> None:
    header = header_of(model="m", source="vLLM 0.32.0", block_size=32, num_blocks=512, events=["tcp://rank-0:5557"])
    observed, cached = ObservedLog(header), Counter[Any]()
    observed.receive(0, Break("attached", 0))
    tokens: dict[bytes, list[int]] = {}
    for number, payload in enumerate(msgspec.msgpack.decode(WIRE.read_bytes())):
        _, events, rank = msgspec.msgpack.decode(payload)
        assert rank == 0
        for event in events:
            hashes = [one.to_bytes(8, "big") for one in event["block_hashes"]]
            if event["type"] == "BlockStored":
                begins = event["parent_block_hash"] is None  # hits of a request may be reported again
                for key in [("GPU", event["group_idx"], one) for one in hashes]:
                    cached[key] += not (begins and key in cached)
                size = event["block_size"]
                tokens |= {one: event["token_ids"][i * size : (i + 1) * size] for i, one in enumerate(hashes)}
            else:
                assert event["type"] == "BlockRemoved"
                cached = +(cached - Counter(("GPU", event["group_idx"], one) for one in hashes))
        observed.receive(0, Message(number, payload, False))
        assert {(medium, group, one) for medium, _, group, one in observed.known(0).keys} == set(cached)
    state = observed.log.state_at(len(observed.log) - 1)
    contents = {block.block_hash: block.token_ids for block in state.blocks if block.block_hash is not None}
    assert contents == {one: tokens[one] for _, _, one in cached}
    assert len(cached) > 200 and all(len(each) == 32 for each in contents.values())
    observed.log.close()


def test_metrics_are_read_per_rank_under_the_servers_names() -> None:
    found = parse_metrics(METRICS)
    assert (found.model, found.block_size, found.num_blocks) == ("m", 32, 512)
    assert found.by_rank == {
        0: {"vllm:num_requests_running": 3.0, 'vllm:request_success_total{finished_reason="stop"}': 7.0},
        1: {"vllm:num_requests_running": 4.0},
    }


def test_prefix_cache_settings_are_read_as_metrics() -> None:
    page = WIRE.with_suffix(".prom").read_text("utf-8")
    for fields, expected in (
        (page, {"enable_prefix_caching": 1.0}),
        (
            page.replace('_tokens="None"', '_tokens="528"').replace('caching="True"', 'caching="False"'),
            {"enable_prefix_caching": 0.0, "cache_hit_alignment_tokens": 528.0},
        ),
    ):
        (numbers,) = parse_metrics(fields).by_rank.values()
        begins = "vllm:cache_config_info."
        assert {name.removeprefix(begins): n for name, n in numbers.items() if name.startswith(begins)} == expected


def test_numbers_are_logged_on_change_only() -> None:
    header = header_of(model="m", source="vLLM", block_size=4, num_blocks=4, events=["a"])
    observed = ObservedLog(header)
    for numbers in ({"x": 1.0}, {"x": 1.0}, {"x": 2.0}):
        observed.numbers({0: numbers})
    for _ in range(2):
        observed.problem(0, "metrics", "nobody answers")
    readings = [observed.log.record(index).seen for index in range(len(observed.log))]
    assert [(one.metrics, one.problem) for one in readings if one] == [
        ({"x": 1.0}, ""),
        ({"x": 2.0}, ""),
        ({}, "nobody answers"),
    ]
    observed.log.close()
