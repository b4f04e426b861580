"""Cost of labs at full speed to the class's run: its steps alone and beside so many labs, in turns.

    python -m tests.load.labs --labs 12 --rounds 3

The bundled model in this process, on theaters as a class has them; no sockets, so that nothing else is measured. Once
the class's run steps at its pace (2 a second), once as fast as it goes.
"""

import argparse
import statistics
import sys
import time
from itertools import pairwise

from app.ground.settings import ServerSettings
from app.models.live_model import load
from app.models.model_entry import ModelEntry
from app.models.registry import Models
from app.server.application import create_app
from app.session.messages import SubmittedPrompt
from app.session.session import Session
from engine.config import EngineConfig, SamplingParams

PROMPT = SubmittedPrompt(text="春江潮水连海平，海上明月共潮生。")
SAMPLING = SamplingParams(max_tokens=900, ignore_eos=True)


def busy(theater: Session, speed: float) -> None:
    """Let the run step by itself from its beginning."""
    theater.reset()
    theater.submit([PROMPT] * 8, SAMPLING)
    theater.prefill(None).result()
    theater.play(speed)


def steps(theater: Session, seconds: float) -> tuple[float, float]:
    """Return the steps per second of a run, and the longest time between two of them in milliseconds."""
    first = len(theater.run.log)
    began = time.monotonic()
    time.sleep(seconds)
    theater.pause()
    log = theater.run.log
    at = [log.record(i).timing.at for i in range(first, len(log))]
    rate = (len(log) - first) / (time.monotonic() - began)
    return rate, 1000 * max((b - a for a, b in pairwise(at)), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="of each part (default: %(default)s)")
    given = parser.parse_args()
    settings = ServerSettings(config=EngineConfig(enforce_eager=True))
    app = create_app(Models(ModelEntry(load("bundled", "auto", "cpu", settings, lambda stage: None))), settings)
    theaters = app.extensions["kvtheater"]
    of_class = theaters.create(settings.config, "class")
    labs = [theaters.create_lab(settings.config, "", None, settings) for _ in range(given.labs)]
    for speed in (2.0, 0.0):
        alone, beside, theirs, gaps = [], [], [], []
        for _ in range(given.rounds):
            busy(of_class, speed)
            alone.append(steps(of_class, given.seconds)[0])
            for lab in labs:
                busy(lab, 0)
            busy(of_class, speed)
            before = sum(len(lab.run.log) for lab in labs)
            rate, gap = steps(of_class, given.seconds)
            theirs.append((sum(len(lab.run.log) for lab in labs) - before) / given.seconds / len(labs))
            beside.append(rate)
            gaps.append(gap)
            for lab in labs:
                lab.pause()
        pairs = [b / a for a, b in zip(alone, beside, strict=True)]
        print(
            f"asked {speed:g}: alone {statistics.median(alone):.2f} steps/s, beside {given.labs} labs "
            f"{statistics.median(beside):.2f} ({min(pairs):.2f} to {max(pairs):.2f} of alone), longest gap "
            f"{max(gaps):.0f} ms; each lab {statistics.median(theirs):.2f} steps/s"
        )
    for end in app.extensions["kvtheater.ending"]:
        end()
    theaters.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
