"""`python -m tests.parity.rerun_shipped`: rerun every shipped recording, compare record by record, then fork it.

Recordings of other engines are skipped, and those with blocks from outside the pool, which the log does not contain.
Prints the maximum difference of log probabilities. On another processor they may differ by rounding only
(`trace.compare.same`); a larger difference ends the program with the record's number.
"""

import msgspec

from app.ground.paths import static_dir
from app.recordings.shelf import traces_in
from engine.config import EngineConfig
from engine.engine import Engine
from engine.lab.change import TokenChange
from engine.lab.rerun import Rerun
from engine.model.loader import load_model
from engine.trace.log import TraceReader
from engine.trace.operations import Load


def main() -> None:
    model = load_model()
    for path in traces_in(static_dir() / "recordings"):
        with TraceReader(path) as log:
            if log.header.watched or any(isinstance(op, Load) for i in range(len(log)) for op in log.record(i).ops):
                continue
            config = msgspec.convert(log.header.engine, EngineConfig)
            with Engine(model, config) as again:
                Rerun(again, log, len(log), None, follow=False).finish()
                assert again.log is not None
                differences = [
                    abs(a.logprob - b.logprob)
                    for i in range(len(log))
                    for a, b in zip(log.record(i).outputs, again.log.record(i).outputs, strict=True)
                ]
            at = len(log) // 2
            choice = next(o for i in range(at, len(log)) for o in log.record(i).outputs)
            with Engine(model, config) as fork:
                alive = log.state_at(at - 1).sequences[choice.seq_id]
                Rerun(fork, log, at, TokenChange(seq_id=choice.seq_id, token_id=choice.top[1].token_id), True).finish()
                assert fork.log is not None
                tokens = fork.log.state_now().sequences[choice.seq_id].token_ids
                assert tokens[: len(alive.token_ids) + 1] == [*alive.token_ids, choice.top[1].token_id]
        print(f"{path.stem}: {len(differences)} tokens, log probabilities within {max(differences):.1e}")


if __name__ == "__main__":
    main()
