"""Test runs limited to the instruction sets of older processors: `python -m tests.processors` (`make processors`).

The kernels of torch, MKL, oneDNN and this project select instructions by the processor's features; an environment
variable limits each library.
"""

import os
import subprocess
import sys

PROCESSORS: dict[str, dict[str, str]] = {
    "this one": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "KVTHEATER_MARCH": "x86-64-v3",
    },
    "sse4.2": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "KVTHEATER_MARCH": "x86-64-v2",
    },
}


def main(options: list[str]) -> int:
    """Run the tests without a browser as on each other processor. Returns the number of runs with failures."""
    failed = 0
    for name, settings in PROCESSORS.items():
        if settings:
            print(f"{name}: {' '.join(f'{key}={value}' for key, value in settings.items())}", flush=True)
            command = [sys.executable, "-m", "pytest", "--ignore=tests/browser", "--quiet", *options]
            failed += subprocess.run(command, env={**os.environ, **settings}, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
