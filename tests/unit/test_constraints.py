"""The pinned versions install on every supported system, from the public package index alone."""

import subprocess
import sys

import pytest

from tools import constraints

pytestmark = pytest.mark.slow
SYSTEMS = ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"]
# packages without a wheel on a system
COMPILED = {("aarch64-apple-darwin", "3.11"): ["gevent"]}


@pytest.fixture(autouse=True, scope="module")
def index() -> None:
    try:
        constraints.resolve("--no-deps")
    except constraints.NoNetworkError as error:
        pytest.skip(f"the package index cannot be reached: {str(error).splitlines()[0]}")


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", ["3.11", "3.14"])
def test_every_package_is_pinned_to_a_version_with_a_wheel(system: str, python: str) -> None:
    wheels_alone = ["--only-binary", ":all:"]
    for package in ("kvtheater", *COMPILED.get((system, python), ())):
        wheels_alone += ["--no-binary", package]
    of_system = ["--python-platform", system, "--python-version", python]
    resolved = constraints.resolve(*wheels_alone, *of_system, "--extra", "test", "--constraint", "constraints.txt")
    lines = {line.split("[")[0].split("==")[0] for line in resolved.splitlines()}
    pinned = {line.split("==")[0] for line in constraints.CONSTRAINTS.read_text().splitlines()}
    assert "torch" in lines and not [name for name in lines - pinned if not name.startswith(constraints.CUDA_PREFIXES)]


def test_pip_reads_the_constraints() -> None:
    """`make run` installs with pip, which refuses extras in constraints, unlike uv.

    Only uv resolves here: from an index without separate metadata, pip would download every wheel (2.8 GB).
    """
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed"]
    done = subprocess.run(
        [*pip, "--constraint", constraints.CONSTRAINTS, "segno"],
        env=constraints.public_index(),
        capture_output=True,
        text=True,
        check=False,
    )
    pin = next(line for line in constraints.CONSTRAINTS.read_text().splitlines() if line.startswith("segno=="))
    assert pin.replace("==", "-") in done.stdout, done.stderr
