"""Imports of all test dependencies, so that `make test` compiles their bytecode once for all test processes."""

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
        with contextlib.suppress(ImportError):  # may be unavailable on a platform; code that needs it reports that
            importlib.import_module(name)


if __name__ == "__main__":
    main()
