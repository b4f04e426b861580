"""Imports of all tests' dependencies, so that their bytecode exists for all test processes: `make test`."""

import contextlib
import importlib

from tests.preloaded import IMPORTS

OTHERS = (
    "engine.model.loader", "engine.model.compiled", "engine.cluster.cluster", "engine.simulate.placement",
    "tests.tiny_models", "tests.parity.harness", "torch._inductor.compile_fx", "transformers", "triton", "scipy.stats",
    "playwright.sync_api", "openai.types", "hypothesis.stateful", "pytest", "xdist.remote", "pyarrow.parquet",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter", "redis", "zmq", "schemathesis",
)  # fmt: skip


def main() -> None:
    for name in (*IMPORTS, *OTHERS):
        with contextlib.suppress(ImportError):  # a platform may not have it; code that needs it reports that
            importlib.import_module(name)


if __name__ == "__main__":
    main()
