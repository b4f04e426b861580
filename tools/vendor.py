"""Fetch the pinned browser libraries of the page (static/vendor) and of the tests (tests/browser/vendor).

Usage: python tools/vendor.py [--check]

For each package the tool runs `npm pack`, compares the archive with the pinned integrity, and copies the listed files
and the licence. Bare import specifiers become relative paths, because the content security policy forbids import maps.
A VENDOR.json in each folder has the checksum of every file. `--check` compares the files with it, without network
access.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static" / "vendor"
TEST_VENDOR = ROOT / "tests" / "browser" / "vendor"


class Package(NamedTuple):
    """Library with the hash of its archive and the files to copy."""

    name: str
    version: str
    licence: str
    integrity: str  # hash of the archive in the registry
    folder: str
    files: dict[str, str]  # path in the archive -> path in the folder
    imports: Mapping[str, str] = MappingProxyType({})  # bare specifier -> relative path
    home: Path = VENDOR  # folder of the page's or of the tests' libraries


MSGPACK_MODULES = [
    *("CachedKeyDecoder", "DecodeError", "Decoder", "Encoder", "ExtData", "ExtensionCodec"),
    *("decode", "decodeAsync", "encode", "index", "timestamp"),
    *("utils/int", "utils/prettyByte", "utils/stream", "utils/typedArrays", "utils/utf8"),
]

PACKAGES = [
    Package(
        name="preact",
        version="11.2.0",
        licence="MIT",
        integrity="sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        folder="preact",
        files={"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"},
        imports={"preact": "./preact.js"},
    ),
    Package(
        name="htm",
        version="3.1.1",
        licence="Apache-2.0",
        integrity="sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        folder="htm",
        files={"dist/htm.mjs": "htm.js"},
    ),
    Package(
        name="@preact/signals",
        version="2.11.4",
        licence="MIT",
        integrity="sha512-Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        folder="signals",
        files={"dist/signals.mjs": "signals.js"},
        imports={
            "preact": "../preact/preact.js",
            "preact/hooks": "../preact/hooks.js",
            "@preact/signals-core": "../signals-core/signals-core.js",
        },
    ),
    Package(
        name="@preact/signals-core",
        version="1.14.5",
        licence="MIT",
        integrity="sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        folder="signals-core",
        files={"dist/signals-core.mjs": "signals-core.js"},
    ),
    Package(
        name="socket.io-client",
        version="4.8.4",
        licence="MIT",
        integrity="sha512-7wjKAvVXYOJsbmUgkWbnhPD4bFpkqrUR0++XOjpGFmqDqsqV1CI93VTraeExLxpjxEqrWgFoSRZu1ihjLWfkAA==",
        folder="socket.io-client",
        files={"dist/socket.io.msgpack.min.js": "socket.io.msgpack.min.js"},
    ),
    Package(
        name="@msgpack/msgpack",
        version="3.1.3",
        licence="ISC",
        integrity="sha512-47XIizs9XZXvuJgoaJUIE2lFoID8ugvc0jzSHP+Ptfk8nTbnR8g788wv48N03Kx0UkAv559HWRQ3yzOgzlRNUA==",
        folder="msgpack",
        files={f"dist.esm/{module}.mjs": f"{module}.mjs" for module in MSGPACK_MODULES},
    ),
    Package(
        name="fflate",
        version="0.8.3",
        licence="MIT",
        integrity="sha512-tbZNuJrLwGUp3zshBtdy4W+ORxZuIh8a5ilyIEQDC5rY1f3U20JMry0Ll3WBzU58EZKsEuJFXhb5gwv8CsPvgA==",
        folder="fflate",
        files={"esm/browser.js": "fflate.js"},
    ),
    Package(
        name="axe-core",
        version="4.14.1",
        licence="MPL-2.0",
        integrity="sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        folder="axe-core",
        files={"axe.min.js": "axe.min.js", "LICENSE-3RD-PARTY.txt": "LICENSE-3RD-PARTY.txt"},
        home=TEST_VENDOR,
    ),
]


def fetch(package: Package, into: Path) -> Path:
    """Fetch and unpack a package's archive into `into`. Checks its integrity. Returns the package's folder."""
    process = subprocess.run(
        ["npm", "pack", f"{package.name}@{package.version}", "--silent", "--pack-destination", str(into)],
        check=True,
        capture_output=True,
        text=True,
        cwd=into,
    )
    archive = into / process.stdout.strip().splitlines()[-1]
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package.integrity:
        raise SystemExit(f"{package.name}@{package.version} has integrity {found}, expected {package.integrity}")
    unpacked = into / package.folder
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    return unpacked / "package"


def rewrite(text: str, imports: Mapping[str, str]) -> str:
    """Make bare import specifiers relative, and remove the reference to the source map."""
    for bare, relative in imports.items():
        text = re.sub(rf'(\bfrom\s*)(["\']){re.escape(bare)}\2', rf"\1\2{relative}\2", text)
    return re.sub(r"\n?//# sourceMappingURL=\S+\s*$", "\n", text)


def install(package: Package, source: Path) -> dict[str, object]:
    """Copy a package's files into its folder. Returns its entry for VENDOR.json."""
    target = package.home / package.folder
    shutil.rmtree(target, ignore_errors=True)
    checksums = {}
    for origin, destination in {**package.files, "LICENSE": "LICENSE"}.items():
        text = (source / origin).read_text(encoding="utf-8")
        upstream = hashlib.sha256(text.encode()).hexdigest()
        if destination != "LICENSE":
            text = rewrite(text, package.imports)
        path = target / destination
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        checksums[destination] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "upstream_sha256": upstream}
    return {
        "name": package.name,
        "version": package.version,
        "licence": package.licence,
        "integrity": package.integrity,
        "folder": package.folder,
        "files": checksums,
    }


def check() -> list[str]:
    """Return the problems of the vendored files, one sentence each."""
    return [problem for home in (VENDOR, TEST_VENDOR) for problem in check_folder(home)]


def check_folder(home: Path) -> list[str]:
    """Return the files under `home` that differ from its VENDOR.json."""
    problems = []
    manifest = json.loads((home / "VENDOR.json").read_text(encoding="utf-8"))
    known = {"VENDOR.json"}
    for entry in manifest["packages"]:
        for name, sums in entry["files"].items():
            known.add(f"{entry['folder']}/{name}")
            path = home / entry["folder"] / name
            if not path.is_file():
                problems.append(f"{path.relative_to(ROOT)} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != sums["sha256"]:
                problems.append(f"{path.relative_to(ROOT)} was changed after it was fetched")
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if name.endswith((".d.ts", ".d.mts")):
            continue  # declarations of this project, which refer the type checker to the package's types
        if path.is_file() and name not in known:
            problems.append(f"{path.relative_to(ROOT)} is not listed in VENDOR.json")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the files with VENDOR.json, fetch nothing")
    if parser.parse_args().check:
        problems = check()
        print("\n".join(problems) or "the vendored files are unchanged")
        return 1 if problems else 0
    with tempfile.TemporaryDirectory() as folder:
        entries = [(package.home, install(package, fetch(package, Path(folder)))) for package in PACKAGES]
    for home in (VENDOR, TEST_VENDOR):
        manifest = {"packages": [entry for place, entry in entries if place == home]}
        (home / "VENDOR.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(f"{len(entries)} packages under {VENDOR} and {TEST_VENDOR}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
