"""Offloading tiers of a scenario, and the accuracy of their time estimates. Imports no torch."""

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
    """Accuracy of the estimates behind load-or-compute decisions: actual / expected seconds.

    `loads`: steps that load blocks; the time to read, verify and copy them. `prefills`: steps with prefill only.
    """

    loads: list[float] = field(default_factory=list)
    prefills: list[float] = field(default_factory=list)
