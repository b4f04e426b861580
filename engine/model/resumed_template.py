"""Rendering of a conversation that begins like an earlier one, by resuming the template's loop over messages.

The template receives a list that records which messages are read. Until it observes the end of the list (its length, a
negative index or `loop.last`), its output depends only on the messages read so far. So the text up to an iteration is a
prefix of the text for every list with the same beginning, and the loop can resume there with the namespaces restored.
Other variables do not outlive an iteration of Jinja's loops.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

import jinja2
from jinja2 import nodes
from jinja2.runtime import LoopContext
from jinja2.utils import Namespace, missing
from transformers.utils import chat_template_utils

from engine.cache.prefix_memory import common_prefix

Message = dict[str, Any]
Plain = Callable[..., str]  # renders messages with settings, without reusing text
AT, FROM = "kvtheater_at", "kvtheater_from"  # functions passed to the template
STATEFUL = ("cycler", "joiner", "strftime_now")  # globals whose result changes between calls
GENERATION_FLAG = "add_generation_prompt"
DEFAULTS = {"tools": None, "documents": None, GENERATION_FLAG: False}  # passed to every template by transformers


class Iteration(NamedTuple):
    """Start of an iteration of a loop over messages."""

    loop: int
    position: int
    length: int  # length of the text before it
    num_read: int  # number of messages read before it
    namespaces: tuple[Mapping[str, Any] | None, ...]  # attributes of the namespaces


@dataclass(frozen=True)
class Rendering:
    """Rendered text, with the iterations at which it can be resumed."""

    text: str
    messages: Sequence[Message] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    iterations: Sequence[Iteration] = ()  # in order


def rendering_of(
    source: str, plain: Plain, messages: Sequence[Message], settings: Mapping[str, Any], earlier: Rendering | None
) -> Rendering:
    """Render messages with settings, which include the special tokens. The text of `earlier`, a rendering of the same
    template, is reused where possible.

    Raises:
        ValueError: the template refuses them.
    """
    template = _resumable(source)
    if template is None or (earlier is not None and not earlier.iterations):
        return Rendering(plain(messages, settings))
    start = None if earlier is None else template.start(earlier, messages, settings)
    try:
        found = template.render(messages, settings, earlier, start)
    except Exception:  # an unsupported access to the list, or an error that the template raises itself
        return Rendering(plain(messages, settings))
    if start is None and found.text != (text := plain(messages, settings)):
        return Rendering(text)
    return found


class _Reads:
    """Record of a template's reads: the number of messages, and whether it observed the end of the list."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.count = 0
        self.saw_end = False


class _Messages:
    """Messages from an index on, as passed to a template. Unsupported accesses raise an error."""

    __slots__ = ("_begin", "_reads")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, reads: _Reads, begin: int = 0) -> None:
        self._reads, self._begin = reads, begin

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            if key.stop is None and key.step in (None, 1) and (key.start is None or key.start >= 0):
                return _Messages(self._reads, self._begin + (key.start or 0))
            return self._all()[key]
        index = self._begin + key
        if key < 0 or index >= len(self._reads.messages):
            return self._all()[key]
        self._reads.count = max(self._reads.count, index + 1)
        return self._reads.messages[index]

    def __iter__(self) -> Iterator[Message]:
        return self._from(0)

    def _from(self, index: int) -> Iterator[Message]:
        reads = self._reads
        for at in range(self._begin + index, len(reads.messages)):
            reads.count = max(reads.count, at + 1)
            yield reads.messages[at]
        reads.saw_end = True

    def _before(self, index: int) -> Any:
        return self._reads.messages[self._begin + index - 1] if index else missing

    def _all(self) -> list[Message]:
        self._reads.saw_end = True
        return list(self._reads.messages[self._begin :])

    def __len__(self) -> int:
        return len(self._all())

    def __bool__(self) -> bool:
        return self._begin < len(self._reads.messages) or bool(self._all())

    def __reversed__(self) -> Iterator[Message]:
        return reversed(self._all())

    def __contains__(self, one: object) -> bool:
        return one in self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, _Messages) else other)

    def __add__(self, other: Any) -> list[Any]:
        found: list[Any] = self._all() + other
        return found

    def __radd__(self, other: Any) -> list[Any]:
        found: list[Any] = other + self._all()
        return found

    def __str__(self) -> str:
        return str(self._all())


class _Rest:
    """Rest of a list for a loop that is resumed."""

    def __init__(self, messages: _Messages, index: int) -> None:
        self._messages, self._index = messages, index

    def __iter__(self) -> Iterator[Message]:
        return self._messages._from(self._index)

    def __len__(self) -> int:
        return len(self._messages)


class _Resumable:
    """Template whose loops over messages report each iteration and can start at a given one."""

    def __init__(self, environment: jinja2.Environment, tree: nodes.Template, reads_flag_at_end: bool) -> None:
        self._template = jinja2.Template.from_code(environment, environment.compile(tree), environment.globals)
        self._ignored = (GENERATION_FLAG,) if reads_flag_at_end else ()

    def start(self, earlier: Rendering, messages: Sequence[Message], settings: Mapping[str, Any]) -> Iteration | None:
        """Return the last iteration up to which the text equals that of `earlier`, or None."""
        names = {*earlier.settings, *settings} - {*self._ignored}
        if any(earlier.settings.get(name) != settings.get(name) for name in names):
            return None
        same = common_prefix(earlier.messages, messages)
        count = bisect_right(earlier.iterations, same, key=lambda one: one.num_read)
        return earlier.iterations[count - 1] if count else None

    def render(
        self,
        messages: Sequence[Message],
        settings: Mapping[str, Any],
        earlier: Rendering | None,
        start: Iteration | None,
    ) -> Rendering:
        """Render messages; with `start`, from that iteration of `earlier` on."""
        aliased = getattr(chat_template_utils, "_alias_reasoning_fields", list)(messages)
        reads, pieces, iterations = _Reads(aliased), list[str](), list[Iteration]()
        length, is_active = 0, start is None
        loop_messages: dict[int, _Messages] = {}  # by loop
        if earlier is not None and start is not None:
            num_reused = earlier.iterations.index(start)
            iterations.extend(earlier.iterations[:num_reused])

        def at(number: int, loop: LoopContext, *namespaces: Any) -> None:
            nonlocal length, is_active
            if number not in loop_messages:
                return
            if not is_active and start is not None and number == start.loop:
                assert earlier is not None
                loop.index0 = start.position
                loop._before = loop_messages[number]._before(start.position)
                for space, attributes in zip(namespaces, start.namespaces, strict=True):
                    if attributes is not None:
                        space._Namespace__attrs.clear()
                        space._Namespace__attrs.update(attributes)
                pieces[:] = [earlier.text[: start.length]]
                length, is_active = start.length, True
                reads.count = max(reads.count, start.num_read)
            if is_active and not reads.saw_end:
                values = tuple(map(_attributes, namespaces))
                iterations.append(Iteration(number, loop.index0, length, reads.count, values))

        def rest(number: int, iterable: Any) -> Any:
            if not isinstance(iterable, _Messages):
                return iterable
            loop_messages[number] = iterable
            return iterable if start is None or number != start.loop else _Rest(iterable, start.position)

        variables = {**DEFAULTS, **settings, "messages": _Messages(reads), AT: at, FROM: rest}
        for piece in self._template.generate(variables):
            pieces.append(piece)
            length += len(piece)
        return Rendering("".join(pieces), messages, settings, iterations)


def _attributes(space: Any) -> Mapping[str, Any] | None:
    """Return the attributes of a namespace, or None for other values."""
    if not isinstance(space, Namespace):
        return None
    found: dict[str, Any] = dict(space._Namespace__attrs)  # type: ignore[attr-defined]
    if not all(value is None or isinstance(value, str | int | float) for value in found.values()):
        raise TypeError("only namespaces of texts and numbers can be resumed")
    return found


@lru_cache(maxsize=16)
def _resumable(source: str) -> _Resumable | None:
    """Return the resumable form of a template; None if it has no top-level loop over messages, or has other state."""
    environment = chat_template_utils._compile_jinja_template(source).environment
    tree = environment.parse(source)
    names = {one.name for one in tree.find_all(nodes.Name)}
    attributes = {one.attr for one in tree.find_all(nodes.Getattr)}
    if names & {*STATEFUL, AT, FROM} or attributes & {"changed", "cycle"}:
        return None
    loops = [one for one in _at_top(tree.body) if isinstance(one, nodes.For) and _is_over_messages(one)]
    if not loops:
        return None
    after = {id(one) for node in _following(tree.body, loops[-1]) for one in node.find_all(nodes.Name)}
    reads = [one for one in tree.find_all(nodes.Name) if one.name == GENERATION_FLAG]
    spaces = dict.fromkeys(
        one.target.name
        for one in _at_top(tree.body)
        if isinstance(one, nodes.Assign) and isinstance(one.target, nodes.Name) and _is_namespace(one.node)
    )
    for number, loop in enumerate(loops):
        arguments: list[nodes.Expr] = [
            nodes.Const(number),
            nodes.Name("loop", "load"),
            *(nodes.Name(name, "load") for name in spaces),
        ]
        loop.body.insert(0, nodes.ExprStmt(_call(AT, arguments)))
        loop.iter = _call(FROM, [nodes.Const(number), cast(nodes.Expr, loop.iter)])
    for node in (*tree.find_all(nodes.ExprStmt), *tree.find_all(nodes.Call)):
        node.set_environment(environment)
    return _Resumable(environment, tree.set_lineno(1), all(id(one) in after for one in reads))


def _call(name: str, arguments: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load"), arguments, [], None, None)


def _at_top(body: Sequence[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield the statements of a template outside loops, macros and blocks."""
    for one in body:
        yield one
        if isinstance(one, nodes.If):
            yield from _at_top([*one.body, *one.elif_, *one.else_])


def _following(body: Sequence[nodes.Node], loop: nodes.Node) -> Sequence[nodes.Node]:
    """Return the statements after the one that contains the loop."""
    at = next(i for i, one in enumerate(body) if one is loop or any(inner is loop for inner in one.find_all(nodes.For)))
    return body[at + 1 :]


def _is_over_messages(loop: nodes.For) -> bool:
    return not loop.recursive and loop.test is None and isinstance(loop.iter, nodes.Name | nodes.Getitem)


def _is_namespace(value: nodes.Node) -> bool:
    return isinstance(value, nodes.Call) and isinstance(value.node, nodes.Name) and value.node.name == "namespace"
