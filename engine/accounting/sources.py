"""Source of each figure of a preset: publisher, date of publication, and when and against what it was checked.

In a file they are the tables `[[gpu.sources]]`, `[[link.sources]]` and `[[model.sources]]` below their preset. A source
without `figures` covers all figures that no other one names, so a file with one source needs only that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date

from msgspec import Struct
from msgspec.structs import fields

OF_MODELS = {  # the meaning of a factor: the figure of a model that it is
    "layers": "num_layers", "kv_heads": "num_kv_heads", "head_dim": "head_dim", "latent_dim": "latent_dim",
    "window": "window", "state": "state_elements", "params": "num_params", "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size", "vocab_size": "vocab_size", "experts": "num_experts",
    "experts_of_a_token": "num_experts_per_tok", "query_heads": "num_heads", "rope_dim": "rope_dim",
    "v_head_dim": "value_dim",
}  # fmt: skip
NO_FIGURES = ("id", "name", "announced", "sources", "mistaken_for")


class FigureSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where figures stand. They are named as in the file; `flops_per_second.int8` is one of a table, and
    `flops_per_second` those of the table that are not named alone.
    """

    says: str
    figures: tuple[str, ...] = ()  # empty: all that no other source names
    dated: date | None = None  # None: undated or unknown
    checked: date | None = None  # the day on which the figures were compared with `against`; None: they were not
    against: str = ""


class Told(Struct, frozen=True, kw_only=True):
    """A source, all figures that it is for, and the meanings of factors (`Factor.meaning`) that these figures are."""

    figures: tuple[str, ...]
    meanings: tuple[str, ...]
    says: str
    dated: date | None
    checked: date | None
    against: str


class Sourced(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Preset with figures, each of which has one source."""

    id: str
    name: str
    sources: tuple[FigureSource, ...]

    def __post_init__(self) -> None:
        """Refuse figures that have no source.

        Raises:
            ValueError: a figure has no source, or two; a source names an unknown figure, or lacks its address.
        """
        figures, named = self.figures, Counter(name for one in self.sources for name in one.figures or ("",))
        known = {*figures, *(one.partition(".")[0] for one in figures), ""}
        for name, times in named.items():
            if name not in known:
                raise ValueError(f"sources of {self.id} name {name!r}, which is no figure of it")
            if times > 1:
                raise ValueError(f"{name or 'the rest'} of {self.id} has {times} sources; leave one")
        if not all(one.says.strip() for one in self.sources):
            raise ValueError(f"a source of {self.id} needs `says`: where its figures stand")
        missing = [one for one in figures if not named.keys() & set(_names(one))]
        if missing:
            raise ValueError(f"{missing[0]} of {self.id} has no source; name it in one, or leave `figures` out of one")

    @property
    def figures(self) -> tuple[str, ...]:
        """All that are given, by their names in the file."""
        found: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in NO_FIGURES or value == field.default:
                continue
            found += [f"{field.name}.{key}" for key in value] if isinstance(value, dict) else [field.name]
        return tuple(found)

    def source_of(self, figure: str) -> FigureSource:
        """Return where one of `figures` stands."""
        by_name = {name: one for one in self.sources for name in one.figures or ("",)}
        return next(by_name[name] for name in _names(figure) if name in by_name)

    def told(self, meanings: Mapping[str, str]) -> list[Told]:
        """Return each source with all of its figures. `meanings`: the figure that a meaning is; of those not given
        none.
        """
        figures = {one: tuple(name for name in self.figures if self.source_of(name) is one) for one in self.sources}
        return [
            Told(
                figures=figures[one],
                meanings=tuple(meaning for meaning, figure in meanings.items() if figure in figures[one]),
                says=one.says,
                dated=one.dated,
                checked=one.checked,
                against=one.against,
            )
            for one in self.sources
        ]


def _names(figure: str) -> tuple[str, ...]:
    """By which a source may be about it, the closest first."""
    return figure, figure.partition(".")[0], ""
