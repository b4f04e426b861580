"""Load of `tests.load.api` on an engine without server and log, with a constant number of running requests.

The first requests have different lengths, so that requests end at different times, as with real clients. If all began
and ended together, their prompts would be computed in one large step, a few percent less work than the server's.

Usage: python -m tests.load.api_bare CLIENTS BLOCKS [compiled]
It reads lines "SECONDS" and prints a line of JSON for each.
"""

import json
import sys
import time

from engine.config import EngineConfig, SamplingParams
from engine.engine import Engine
from engine.model.compiled import compile_model
from engine.model.loader import load_model
from tests.load.api_client import MAX_TOKENS, PROMPTS


def main() -> None:
    clients, is_compiled = int(sys.argv[1]), "compiled" in sys.argv[3:]
    model = load_model("bundled")
    if is_compiled:
        model.compiled = compile_model(model)
    config = EngineConfig(
        max_num_seqs=clients, num_blocks=int(sys.argv[2]), enforce_eager=not is_compiled, num_logprobs=0
    )
    with Engine(model, config, keep_log=False) as engine:
        number = 0
        for line in sys.stdin:
            tokens, began = 0, time.monotonic()
            end = began + float(line)
            while time.monotonic() < end:
                while engine.num_unfinished < clients:
                    length = MAX_TOKENS if number >= clients else 1 + number * MAX_TOKENS // clients
                    sampling = SamplingParams(max_tokens=length, ignore_eos=True)
                    engine.add_request(PROMPTS[number * 7 % len(PROMPTS)], sampling)
                    number += 1
                tokens += len(engine.step().outputs)
            print(json.dumps({"tokens": tokens, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    main()
