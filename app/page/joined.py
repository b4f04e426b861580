"""Bundle of modules, so that a first visit requests one file instead of one per module.

A browser takes 1 to 5 ms to create a module, and a phone half a second for more than a hundred of them. In the bundle
each module is a function that returns its exports, in dependency order. Modules outside the bundle import from it.
Modules with import cycles or unsupported statements raise ValueError. Exports must not be reassigned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from posixpath import dirname, join, normpath, relpath

JOINED = "first.js"  # below static/
_BEGIN = r"(?:^|(?<=[;}]))[ \t]*"
_IMPORT = re.compile(_BEGIN + r"""import\b\s*([^"'();]+?)\s*from\s*["'](\.[^"']+)["'];?""", re.MULTILINE)
_REEXPORT = re.compile(_BEGIN + r"""export\s*\{([^}]*)\}\s*from\s*["'](\.[^"']+)["'];?""", re.MULTILINE)
_EXPORT = re.compile(_BEGIN + r"export\s+(const|class|(?:async\s+)?function\s*\*?)\s*([\w$]+)", re.MULTILINE)
_LIST = re.compile(_BEGIN + r"export\s*\{([^}]*)\};?", re.MULTILINE)
_DEFAULT = re.compile(_BEGIN + r"export\s+default\b", re.MULTILINE)
_DYNAMIC = re.compile(r"""(?<![\w$.@{*])import\(\s*(["'])(\.[^"']+)\1\s*\)""")
_UNSUPPORTED = re.compile(r"^(?:import|export)\b(?!\()", re.MULTILINE)

Read = Callable[[str], str]


def identifier(name: str) -> str:
    """Return a module's name in the bundle."""
    return re.sub(r"\W", "_", name)


def dependency_order(entries: Iterable[str], imports: Callable[[str], list[str]]) -> list[str]:
    """Return these modules and all their direct and indirect imports, each after its imports.

    Raises:
        ValueError: there is an import cycle.
    """
    names: dict[str, bool] = {}  # whether all imports of the module are included

    def put(name: str) -> None:
        if name not in names:
            names[name] = False
            for imported in imports(name):
                put(imported)
            del names[name]
            names[name] = True
        elif not names[name]:
            raise ValueError(f"{name} cannot be bundled: it imports itself indirectly")

    for name in entries:
        put(name)
    return list(names)


def bundled(names: list[str], lazy: Collection[str], entry: str | None, read: Read) -> str:
    """Return the bundle.

    Args:
        names: modules as paths below static/, each after its imports.
        lazy: modules that run on first use.
        entry: the entry point, which may await; None: it is not in the bundle.
        read: returns the text of a module.

    Raises:
        ValueError: a module cannot be bundled.
    """
    bundle = _Bundle(names, lazy)
    parts = ["const once = (make) => { let made; return () => (made ??= make()); };"]
    for name in names:
        body, exports = bundle.body(name, read(name))
        if name == entry:
            parts.append(f"(async () => {{\n{body}\n}})();")  # must not delay lazy modules
            continue
        made = f"() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}}"
        made = f"once({made})" if name in lazy else f"({made})()"
        parts.append(f"// {name}\nconst {identifier(name)} = {made};")
    exported = ", ".join(identifier(name) for name in names if name != entry)
    if entry is None:
        return "\n".join([*parts, f"export {{ {exported} }};"])
    # before the entry awaits, since its lazy imports may need these names
    return "\n".join([*parts[:-1], f"export {{ {exported} }};", parts[-1]])


def rewrite_imports(name: str, text: str, names: Collection[str], lazy: Collection[str]) -> str:
    """Return the text of a module outside the bundle, with imports of bundled modules replaced."""
    bundle = _Bundle(names, lazy)
    home = _path(name, JOINED)
    used: dict[str, str] = {}

    def static_import(found: re.Match[str]) -> str:
        target = normpath(join(name, "..", found[2]))
        if target not in names:
            return found[0]
        used[identifier(target)] = home
        return bundle.bound(found[1], target)

    def dynamic_import(found: re.Match[str]) -> str:
        target = normpath(join(name, "..", found[2]))
        if target not in names:
            return found[0]
        return f'import("{home}").then((first) => first.{bundle.value(target)})'

    text = _DYNAMIC.sub(dynamic_import, _IMPORT.sub(static_import, text))
    if not used:
        return text
    return f'import {{ {", ".join(used)} }} from "{home}"; {text}'


def reexport(name: str, text: str, names: Collection[str], lazy: Collection[str]) -> str:
    """Return the text of a module that re-exports a bundled module under its own path."""
    bundle = _Bundle(names, lazy)
    keys = [export.partition(":")[0] for export in bundle.body(name, text)[1]]
    lines = [f'import {{ {identifier(name)} as $given }} from "{_path(name, JOINED)}";']
    lines.append(f"const $exports = $given{'()' if name in lazy else ''};")
    return "\n".join(
        lines + [f"export {'default' if each == 'default' else f'const {each} ='} $exports.{each};" for each in keys]
    )


class _Bundle:
    """Bundle under construction."""

    def __init__(self, names: Collection[str], lazy: Collection[str]) -> None:
        self._names, self._later = set(names), set(lazy)

    def value(self, name: str) -> str:
        """Return the expression for a bundled module's exports."""
        return f"{identifier(name)}()" if name in self._later else identifier(name)

    def bound(self, clause: str, name: str) -> str:
        """Return the declaration that replaces an import of a bundled module."""
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
        """Return a module's text as a function body, and the properties of the object with its exports."""
        exports: list[str] = []

        def target(specifier: str) -> str:
            found = normpath(join(name, "..", specifier))
            if found not in self._names:
                raise ValueError(f"{name} imports {found}, which is not in the bundle")
            return found

        def reexported(found: re.Match[str]) -> str:
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

        def dynamic(found: re.Match[str]) -> str:
            target = normpath(join(name, "..", found[2]))
            if target in self._names:
                return f"Promise.resolve().then(() => {self.value(target)})"
            return f'import("{_path(JOINED, target)}")'

        text = _IMPORT.sub(lambda found: self.bound(found[1], target(found[2])), text)
        text = _REEXPORT.sub(reexported, text)
        text = _DEFAULT.sub(default, _EXPORT.sub(declared, _LIST.sub(listed, text)))
        text = _DYNAMIC.sub(dynamic, text)
        if left := _UNSUPPORTED.search(text):
            line = text[left.start() :].partition("\n")[0]
            raise ValueError(f"{name} cannot be bundled because of this line: {line}")
        return text, exports


def _pairs(names: str) -> list[str]:
    return [part for part in (part.strip() for part in names.split(",")) if part]


def _pair(text: str) -> tuple[str, str]:
    """Return (a, b) for `a as b`, and (a, a) for `a`."""
    first, _, second = text.partition(" as ")
    return first.strip(), (second or first).strip()


def _path(from_name: str, to_name: str) -> str:
    """Return the specifier with which one module imports another."""
    found = relpath(to_name, dirname(from_name) or ".")
    return found if found.startswith(".") else f"./{found}"
