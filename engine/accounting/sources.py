"""Source of each figure of a preset: publication, date, and when and against what it was checked.

A file has sources as tables `[[gpu.sources]]`, `[[link.sources]]` and `[[model.sources]]` below the preset. A source
without `figures` covers all figures that no other source names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date

from msgspec import Struct
from msgspec.structs import fields

OF_MODELS = {  # meaning of a factor -> figure of a model
    "layers": "num_layers", "kv_heads": "num_kv_heads", "head_dim": "head_dim", "latent_dim": "latent_dim",
    "window": "window", "state": "state_elements", "params": "num_params", "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size", "vocab_size": "vocab_size", "experts": "num_experts",
    "experts_of_a_token": "num_experts_per_tok", "query_heads": "num_heads", "rope_dim": "rope_dim",
    "v_head_dim": "value_dim",
}  # fmt: skip
NO_FIGURES = ("id", "name", "announced", "sources", "mistaken_for")


class FigureSource(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Source of figures.

    `figures`: field names. `flops_per_second.int8` is one entry of a table; `flops_per_second` covers all entries that
    no source names.
    """

    says: str
    figures: tuple[str, ...] = ()  # empty: all figures that no other source names
    dated: date | None = None  # None: undated or unknown
    checked: date | None = None  # date of the check against `against`; None: not checked
    against: str = ""


class SourceFacts(Struct, frozen=True, kw_only=True):
    """Source with all its figures and the meanings (`Factor.meaning`) of these figures."""

    figures: tuple[str, ...]
    meanings: tuple[str, ...]
    says: str
    dated: date | None
    checked: date | None
    against: str


class Sourced(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Preset with figures, each with one source."""

    id: str
    name: str
    sources: tuple[FigureSource, ...]

    def __post_init__(self) -> None:
        """Check that each figure has a source.

        Raises:
            ValueError: a figure has no source or two; or a source names an unknown figure or has no `says`.
        """
        figures, named = self.figures, Counter(name for one in self.sources for name in one.figures or ("",))
        known = {*figures, *(one.partition(".")[0] for one in figures), ""}
        for name, times in named.items():
            if name not in known:
                raise ValueError(f"sources of {self.id} name {name!r}, which is not one of its figures")
            if times > 1:
                raise ValueError(f"{name or 'the rest'} of {self.id} has {times} sources; leave one")
        if not all(one.says.strip() for one in self.sources):
            raise ValueError(f"a source of {self.id} needs `says`: where its figures stand")
        missing = [one for one in figures if not named.keys() & set(_names(one))]
        if missing:
            raise ValueError(f"{missing[0]} of {self.id} has no source; name it in one, or leave `figures` out of one")

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that the preset has."""
        found: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in NO_FIGURES or value == field.default:
                continue
            found += [f"{field.name}.{key}" for key in value] if isinstance(value, dict) else [field.name]
        return tuple(found)

    def source_of(self, figure: str) -> FigureSource:
        by_name = {name: one for one in self.sources for name in one.figures or ("",)}
        return next(by_name[name] for name in _names(figure) if name in by_name)

    def source_facts(self, meanings: Mapping[str, str]) -> list[SourceFacts]:
        """Return each source with all its figures. `meanings`: meaning of a factor -> figure."""
        figures = {one: tuple(name for name in self.figures if self.source_of(name) is one) for one in self.sources}
        return [
            SourceFacts(
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
    """Return the names by which a source may cover a figure, most specific first."""
    return figure, figure.partition(".")[0], ""
