"""A scenario's tiers outside the pool, and the accuracy of their estimates. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from engine.connector.tiers.settings import parse_size


class TierSizes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of the tiers, in the format of `--kv-offload-cpu` ("64MiB"); None: no such tier."""

    cpu: str | None = None
    disk: str | None = None

    def checked(self) -> TierSizes:
        """Validate and return the sizes.

        Raises:
            SettingError: an invalid size.
        """
        for size in (self.cpu, self.disk):
            if size is not None:
                parse_size(size)
        return self


@dataclass(slots=True)
class Estimates:
    """Accuracy of the cost estimates behind decisions: actual over expected seconds.

    `loads`: of steps that load, for reading, checking and placing the blocks. `prefills`: of steps with prefill only.
    """

    loads: list[float] = field(default_factory=list)
    prefills: list[float] = field(default_factory=list)
