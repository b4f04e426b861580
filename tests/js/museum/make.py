"""Make the traces of this folder, `python -m tests.js.museum.make`: short runs of each exhibit, both lanes.

Only as many tokens as the fault needs to show, and arrays of the first two layers where they are the evidence.
"""

from pathlib import Path

from app.scenes.museum import EXHIBITS
from app.scenes.scene_texts import prompts_of
from engine.config import EngineConfig, SamplingParams
from engine.lab.faults import make_engine
from engine.model.capture import CaptureRequest
from engine.model.loader import load_model

HERE = Path(__file__).parent
TOKENS = {
    "slot_off_by_one": 2,
    "no_copy_at_shared_write": 5,
    "stale_hash_after_reallocation": 16,
    "output_lost_at_preemption": 16,
    "missing_causal_mask": 2,
    "rope_restarted_at_chunk": 2,
}
# Bytes of arrays a step, where they are the evidence: two layers of a prefill.
ARRAYS = {"slot_off_by_one": 35_000, "missing_causal_mask": 40_000, "rope_restarted_at_chunk": 28_000}


def main() -> None:
    model = load_model("bundled", device="cpu")
    for exhibit in EXHIBITS:
        sampling = SamplingParams(**{**exhibit.sampling, "max_tokens": TOKENS[exhibit.id]})
        budget = ARRAYS.get(exhibit.id)
        capture = None if budget is None else CaptureRequest(layers=[0, 1], budget_bytes=budget)
        for name, fault in (("healthy", None), ("faulty", exhibit.id)):
            path = HERE / f"{exhibit.id}-{name}.kvtrace"
            path.unlink(missing_ok=True)
            config = EngineConfig(**{**exhibit.config, "num_logprobs": 0}, fault=fault)
            with make_engine(model, config, log_path=path, capture=capture) as engine:
                for prompt in prompts_of("museum", exhibit.id, "zh"):
                    engine.add_request(prompt, sampling)
                while engine.has_unfinished():
                    engine.step()


if __name__ == "__main__":
    main()
