"""`make oldest` installs the lower bounds of pyproject.toml and the other packages' usual versions."""

import re
import tomllib

from tools.install import CONSTRAINTS, OLDEST, ROOT, oldest


def pins(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^([\w.-]+)(?:==|<)([^\s;]+)", text, re.MULTILINE)


def test_each_lower_bound_is_pinned_and_other_packages_as_usual() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found, usual = pins(oldest()), dict(pins(CONSTRAINTS.read_text()))
    for name in OLDEST:
        assert [f"{name}>={version}" for one, version in found if one == name] == [
            re.split(",|;", line)[0] for line in declared if line.startswith(f"{name}>=")
        ]
        assert dict(found)[name] != usual[name], "the lower bound is the usual version, so the run tests nothing older"
    others = [(name, version) for name, version in found if name not in OLDEST and name != "numpy"]
    assert others and set(others) <= set(pins(CONSTRAINTS.read_text()))
