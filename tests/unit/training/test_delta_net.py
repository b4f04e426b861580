"""Within training of the hybrid model, documents in one row do not use each other's state."""

import random
from pathlib import Path

import torch
from transformers import Qwen3_5ForCausalLM

from training.config import load_config
from training.data import collate
from training.delta_net import separate_documents
from training.model import batch_loss, build_model

CONFIG = Path(__file__).parents[3] / "training" / "bundled.toml"
VOCABULARY, END = 64, 0


def test_documents_of_a_row_have_the_loss_of_separate_documents() -> None:
    """Documents begin within a chunk of 64 and at its border, and some are shorter than the convolution."""
    torch.manual_seed(0)
    shape = load_config(CONFIG, "hybrid")["model"]
    model = build_model(shape, VOCABULARY, END).eval()
    draw = random.Random(0)
    documents = [[draw.randrange(1, VOCABULARY) for _ in range(length)] for length in (30, 2, 32, 70, 3, 20)]
    batch = collate([documents], 160, END)
    plain = Qwen3_5ForCausalLM(model.config).eval()
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        packed = float(batch_loss(model, batch.ids, batch.targets, batch.positions, batch.mask))
        separate = 0.0
        for document in documents:
            ids = torch.tensor([document])
            logits = plain(input_ids=ids, use_cache=False).logits[0, :-1]
            separate += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        separate_documents(plain)
        leaking = float(
            batch_loss(plain, batch.ids, batch.targets, torch.arange(160)[None], batch.mask)  # one long document
        )
    assert abs(packed - separate) < 1e-3
    assert abs(leaking - separate) > 0.1  # the state of earlier documents changes the loss
