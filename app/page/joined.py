"""Bundle of many modules: a first visit needs one file instead of one request per module.

A browser takes 1 to 5 ms to create a module, a hundred and more of them on a phone half a second. Here each becomes a
function that returns its exports, in dependency order; a module outside the bundle imports from it. That works for
modules whose exports never change and that are free of import cycles; for any other module ValueError says which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from posixpath import dirname, join, normpath, relpath

JOINED = "first.js"  # below static/
_BEGIN = r"(?:^|(?<=[;}]))[ \t]*"
_IMPORT = re.compile(_BEGIN + r"""import\b\s*([^"'();]+?)\s*from\s*["'](\.[^"']+)["'];?""", re.MULTILINE)
_AGAIN = re.compile(_BEGIN + r"""export\s*\{([^}]*)\}\s*from\s*["'](\.[^"']+)["'];?""", re.MULTILINE)
_EXPORT = re.compile(_BEGIN + r"export\s+(const|class|(?:async\s+)?function\s*\*?)\s*([\w$]+)", re.MULTILINE)
_LIST = re.compile(_BEGIN + r"export\s*\{([^}]*)\};?", re.MULTILINE)
_DEFAULT = re.compile(_BEGIN + r"export\s+default\b", re.MULTILINE)
_LATER = re.compile(r"""(?<![\w$.@{*])import\(\s*(["'])(\.[^"']+)\1\s*\)""")
_LEFT = re.compile(r"^(?:import|export)\b(?!\()", re.MULTILINE)

Read = Callable[[str], str]


def identifier(name: str) -> str:
    """Return a module's name in the bundle."""
    return re.sub(r"\W", "_", name)


def in_order(entries: Iterable[str], imports: Callable[[str], list[str]]) -> list[str]:
    """Return the modules of the bundle: these and all that they import, each after its imports.

    Raises:
        ValueError: modules that need each other in a circle.
    """
    names: dict[str, bool] = {}  # whether all of its imports are included

    def put(name: str) -> None:
        if name not in names:
            names[name] = False
            for imported in imports(name):
                put(imported)
            del names[name]
            names[name] = True
        elif not names[name]:
            raise ValueError(f"{name} cannot come with the others: it needs itself, by way of what it imports")

    for name in entries:
        put(name)
    return list(names)


def joined(names: list[str], later: Collection[str], entry: str | None, read: Read) -> str:
    """Return the bundle.

    Args:
        names: its modules as paths below static/; each comes after those that it imports.
        later: those that run on first use.
        entry: the entry point; it may await. None: it is not in the bundle.
        read: the text of a module.

    Raises:
        ValueError: a module that cannot be in it.
    """
    whole = _Whole(names, later)
    parts = ["const once = (make) => { let made; return () => (made ??= make()); };"]
    for name in names:
        body, exports = whole.body(name, read(name))
        if name == entry:
            parts.append(f"(async () => {{\n{body}\n}})();")  # no later module waits for it
            continue
        made = f"() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}}"
        made = f"once({made})" if name in later else f"({made})()"
        parts.append(f"// {name}\nconst {identifier(name)} = {made};")
    given = ", ".join(identifier(name) for name in names if name != entry)
    if entry is None:
        return "\n".join([*parts, f"export {{ {given} }};"])
    # before the entry awaits, since its later imports may need these names
    return "\n".join([*parts[:-1], f"export {{ {given} }};", parts[-1]])


def beside(name: str, text: str, names: Collection[str], later: Collection[str]) -> str:
    """Return a module outside the bundle, which takes bundled exports from there."""
    whole = _Whole(names, later)
    home = _path(name, JOINED)
    taken: dict[str, str] = {}

    def take(found: re.Match[str]) -> str:
        target = normpath(join(name, "..", found[2]))
        if target not in names:
            return found[0]
        taken[identifier(target)] = home
        return whole.bound(found[1], target)

    def ask(found: re.Match[str]) -> str:
        target = normpath(join(name, "..", found[2]))
        if target not in names:
            return found[0]
        return f'import("{home}").then((first) => first.{whole.value(target)})'

    text = _LATER.sub(ask, _IMPORT.sub(take, text))
    if not taken:
        return text
    return f'import {{ {", ".join(taken)} }} from "{home}"; {text}'


def in_place_of(name: str, text: str, names: Collection[str], later: Collection[str]) -> str:
    """Return a module that re-exports a bundled one under its own address."""
    whole = _Whole(names, later)
    given = [export.partition(":")[0] for export in whole.body(name, text)[1]]
    lines = [f'import {{ {identifier(name)} as $given }} from "{_path(name, JOINED)}";']
    lines.append(f"const $exports = $given{'()' if name in later else ''};")
    return "\n".join(
        lines + [f"export {'default' if each == 'default' else f'const {each} ='} $exports.{each};" for each in given]
    )


class _Whole:
    """Bundle under construction."""

    def __init__(self, names: Collection[str], later: Collection[str]) -> None:
        self._names, self._later = set(names), set(later)

    def value(self, name: str) -> str:
        """Return the expression for a bundled module's exports."""
        return f"{identifier(name)}()" if name in self._later else identifier(name)

    def bound(self, clause: str, name: str) -> str:
        """Return the names that an import of a bundled module binds."""
        clause = clause.strip()
        if clause.startswith("{"):
            names = (_pair(pair) for pair in _pairs(clause.strip("{}")))
            clause = "{ " + ", ".join(a if a == b else f"{a}: {b}" for a, b in names) + " }"
        elif clause.startswith("*"):
            clause = clause.split()[-1]
        else:
            clause = f"{{ default: {clause} }}"
        return f"const {clause} = {self.value(name)};"

    def body(self, name: str, text: str) -> tuple[str, list[str]]:
        """Return a module's text as a function body that returns its exports."""
        exports: list[str] = []

        def target(specifier: str) -> str:
            found = normpath(join(name, "..", specifier))
            if found not in self._names:
                raise ValueError(f"{name} imports {found}, which does not come with it")
            return found

        def again(found: re.Match[str]) -> str:
            value = self.value(target(found[2]))
            exports.extend(f"{as_}: {value}.{theirs}" for theirs, as_ in map(_pair, _pairs(found[1])))
            return ""

        def listed(found: re.Match[str]) -> str:
            exports.extend(f"{as_}: {ours}" for ours, as_ in map(_pair, _pairs(found[1])))
            return ""

        def declared(found: re.Match[str]) -> str:
            exports.append(found[2])
            return f"{found[1]} {found[2]}"

        def default(_: re.Match[str]) -> str:
            exports.append("default: exported")
            return "const exported ="

        def later(found: re.Match[str]) -> str:
            target = normpath(join(name, "..", found[2]))
            if target in self._names:
                return f"Promise.resolve().then(() => {self.value(target)})"
            return f'import("{_path(JOINED, target)}")'

        text = _IMPORT.sub(lambda found: self.bound(found[1], target(found[2])), text)
        text = _AGAIN.sub(again, text)
        text = _DEFAULT.sub(default, _EXPORT.sub(declared, _LIST.sub(listed, text)))
        text = _LATER.sub(later, text)
        if left := _LEFT.search(text):
            line = text[left.start() :].partition("\n")[0]
            raise ValueError(f"{name} cannot come with the others because of this line: {line}")
        return text, exports


def _pairs(names: str) -> list[str]:
    return [part for part in (part.strip() for part in names.split(",")) if part]


def _pair(text: str) -> tuple[str, str]:
    """Return (a, b) for `a as b`, and (a, a) for `a`."""
    first, _, second = text.partition(" as ")
    return first.strip(), (second or first).strip()


def _path(from_name: str, to_name: str) -> str:
    """Return the specifier with which one module imports the other."""
    found = relpath(to_name, dirname(from_name) or ".")
    return found if found.startswith(".") else f"./{found}"
