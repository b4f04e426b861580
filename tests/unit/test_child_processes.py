"""Child processes import nothing from the working directory."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARK = "planted code ran"
# each starts a child in the working directory and waits for its end
KINDS = {
    "compiling": "from engine.model.compiler_process import *; CompilerProcess(Task('bundled', 'nonsense')).wait()",
    "an instance": "from engine.cluster.worker_process import *; p = WorkerProcess(); p.peer.close(); p.wait(60)",
    "a peer": """
from engine.bench.peers.process import *
class Own(ProcessPeer):
    package, module, program = "own", "sys", "engine.bench.peers.foreign.onnxruntime"
own = Own()
class Models:
    source = staticmethod(str)
try:
    own.load(Models(), "none", "float32")
except Exception as error:
    pass
""",
    "a question of a log": """
import io, subprocess, sys
from engine.system.host import child_environment
LOG = "engine.trace"
for module in ("engine.simulate.what_if", f"{LOG}.log_index.make", f"{LOG}.query.table_cache", "app.bench.worker"):
    subprocess.run([sys.executable, "-m", module, "--help"], env=child_environment(), stdin=subprocess.DEVNULL)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_child_runs_nothing_of_the_working_directory(kind: str, tmp_path: Path) -> None:
    """`kvtheater serve .` runs in the folder of a downloaded model, which may contain such files."""
    plant = f"open({str(tmp_path / 'mark')!r}, 'w').write({MARK!r})\n"
    planted = tmp_path / "model"
    for name in ("engine", "app", "torch", "msgspec", "transformers", "numpy"):
        (planted / name).mkdir(parents=True)
        (planted / name / "__init__.py").write_text(plant)
    for name in ("json", "sitecustomize", "random"):
        (planted / f"{name}.py").write_text(plant)
    subprocess.run(
        [sys.executable, "-P", "-c", KINDS[kind]], cwd=planted, capture_output=True, check=False, timeout=240
    )
    assert not (tmp_path / "mark").exists()


def test_every_child_process_gets_the_child_environment() -> None:
    """Each command with "-m" in a file has a call of `child_environment`."""
    found = dict[str, int]()
    for folder in ("engine", "app", "kvtheater"):
        for path in (ROOT / folder).rglob("*.py"):
            if '"-m"' not in (text := path.read_text(encoding="utf-8")):
                continue
            tree = ast.parse(text)
            modules = [one for one in ast.walk(tree) if isinstance(one, ast.Constant) and one.value == "-m"]
            calls = [
                one
                for one in ast.walk(tree)
                if isinstance(one, ast.Call) and getattr(one.func, "id", "") == "child_environment"
            ]
            if modules and path.name != "openvino.py":  # its -m is an option of another program
                found[path.relative_to(ROOT).as_posix()] = len(modules) - len(calls)
    assert len(found) >= 8 and not any(found.values()), found
