"""Options of the offload tiers below the pools, and the tiers themselves for the server's lifetime."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from app.cli.options import UserError, user_errors
from app.cli.terminal import say
from engine.connector.tiers.settings import SettingError, parse_disk, parse_size

if TYPE_CHECKING:
    from engine.connector.tiers.tiers import Tiers


def add_kv_offload_options(parser: argparse.ArgumentParser) -> None:
    """Add `--kv-offload-cpu` and `--kv-offload-disk`."""
    group = parser.add_argument_group("kv offload", "also store full blocks outside the pool, shared by all runs")
    group.add_argument("--kv-offload-cpu", metavar="SIZE", help="CPU memory for blocks, such as 1GiB (default: none)")
    group.add_argument(
        "--kv-offload-disk",
        metavar="DIR:SIZE",
        help="folder for blocks and its maximum size, for example kv-blocks:10GiB; it survives restarts, and several "
        "servers may share it; anyone who can read it can infer the prompts (default: none)",
    )


@contextlib.contextmanager
def kv_offload(arguments: argparse.Namespace) -> Iterator[Tiers | None]:
    """Yield the configured tiers, or None. At the end, pending blocks are written.

    Raises:
        UserError: an option is invalid, or the folder cannot be used.
    """
    cpu, disk = arguments.kv_offload_cpu, arguments.kv_offload_disk
    if cpu is None and disk is None:
        yield None
        return
    if disk is not None and arguments.api_private:
        raise UserError("--kv-offload-disk stores the cache of prompts on disk, which --api-private forbids")
    with user_errors(SettingError, of="--kv-offload"):
        cpu_bytes = None if cpu is None else parse_size(cpu)
        disk_setting = None if disk is None else parse_disk(disk)
    from engine.connector.tiers.shared_folder import FolderError
    from engine.connector.tiers.tiers import Tiers

    with user_errors(FolderError, of="--kv-offload-disk"):
        tiers = Tiers(cpu_bytes, disk_setting)
    try:
        yield tiers
    finally:
        if lost := tiers.close():
            say(f"{lost} blocks were not written to {disk}: the disk was too slow", flush=True)
