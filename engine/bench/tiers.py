"""A scenario's tiers outside the pool, and what is found of their estimates. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from engine.connector.tiers.settings import parse_size


class TierSizes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the tiers, as `--kv-offload-cpu` takes them ("64MiB"); None: there is no such tier."""

    cpu: str | None = None
    disk: str | None = None

    def checked(self) -> TierSizes:
        """Itself.

        Raises:
            SettingError: a size that cannot be read.
        """
        for size in (self.cpu, self.disk):
            if size is not None:
                parse_size(size)
        return self


@dataclass(slots=True)
class Estimates:
    """Accuracy of the cost estimates behind decisions: actual over expected seconds.

    `loads`: of each step that loaded, reading, checking and placing the blocks. `prefills`: of each step that computed
    prompt tokens and nothing else.
    """

    loads: list[float] = field(default_factory=list)
    prefills: list[float] = field(default_factory=list)
