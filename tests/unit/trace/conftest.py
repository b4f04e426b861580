"""A small handwritten trace: header and records."""

import pytest

from engine.trace.apply import apply
from engine.trace.operations import Admit, Allocate, Cache, Free, Op, Sample, Submit, Write
from engine.trace.operations import Finish as FinishOp
from engine.trace.records import Candidate, Header, Machine, ModelFacts, Output, StepRecord, Timing, TokenizerFacts
from engine.trace.state import initial_state, memory_figures

BYTES_PER_TOKEN = 64


@pytest.fixture
def header() -> Header:
    """Return a header with 4 blocks of 2 slots. A token has 2 layers x 2 KV heads x 4 dims x 2 bytes x 2 = 64 bytes."""
    model = ModelFacts(
        name="tiny",
        architecture="LlamaForCausalLM",
        num_params=1000,
        num_layers=2,
        hidden_size=16,
        intermediate_size=32,
        num_heads=4,
        num_kv_heads=2,
        head_dim=4,
        v_head_dim=4,
        vocab_size=256,
        max_position=8,
        dtype="float16",
        sliding_windows=[None, None],
    )
    return Header(
        generator="test",
        created="2026-01-01T00:00:00Z",
        model=model,
        tokenizer=TokenizerFacts(name="bytes", vocab_size=256, eos_token_ids=[0]),
        engine={"num_blocks": 4, "block_size": 2},
        kv_bytes_per_token=BYTES_PER_TOKEN,
        machine=Machine(device="cpu", processor="", num_threads=1, versions={}),
    )


@pytest.fixture
def records(header: Header) -> list[StepRecord]:
    """Return records of a prompt of 3 tokens in blocks 0 and 1, and a decode step that fills block 1 and finishes.

    Block 1, without a hash, is freed to the front of the free queue, and block 0, with a hash, to the back. The queue
    is then 1, 2, 3, 0.
    """
    ops: list[list[Op]] = [
        [
            Submit(
                seq_id=0,
                queue_position=0,
                request_id="a",
                prompt_token_ids=[65, 66, 67],
                prompt_token_bytes=[b"A", b"B", b"C"],
                max_tokens=2,
            )
        ],
        [
            Admit(seq_id=0, num_cached_tokens=0, resumed=False),
            Allocate(seq_id=0, block_id=0, logical=0),
            Allocate(seq_id=0, block_id=1, logical=1),
            Cache(seq_id=0, block_id=0, logical=0, block_hash=b"h0", parent_hash=None, token_ids=[65, 66]),
            Write(seq_id=0, start=0, num_tokens=3),
            Sample(seq_id=0, token_id=68),
        ],
        [
            Write(seq_id=0, start=3, num_tokens=1),
            Sample(seq_id=0, token_id=69),
            Free(seq_id=0, block_id=1, to="front"),
            Free(seq_id=0, block_id=0, to="back"),
            FinishOp(seq_id=0, reason="length"),
        ],
    ]
    state = initial_state(header)
    step_records = []
    for index, record_ops in enumerate(ops):
        outputs = [
            Output(
                seq_id=op.seq_id,
                token_id=op.token_id,
                token_bytes=bytes([op.token_id]),
                text=chr(op.token_id),
                logprob=-0.5,
                top=[Candidate(token_id=op.token_id, token_bytes=bytes([op.token_id]), logprob=-0.5)],
            )
            for op in record_ops
            if isinstance(op, Sample)
        ]
        draft = StepRecord(
            index=index,
            kind="step" if index else "submit",
            step=index,
            ops=record_ops,
            outputs=outputs,
            timing=Timing(at=float(index)),
            memory=memory_figures(state),
        )
        apply(state, draft)
        step_records.append(
            StepRecord(
                index=index,
                kind=draft.kind,
                step=index,
                ops=record_ops,
                outputs=outputs,
                timing=draft.timing,
                memory=memory_figures(state),
            )
        )
    return step_records
