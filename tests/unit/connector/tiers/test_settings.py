"""Parsing of sizes and folders."""

from pathlib import Path

import pytest

from engine.connector.tiers.settings import DiskSetting, SettingError, parse_disk, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 1073741824),
        ("1.5 GiB", 1610612736),
        (" 512mib ", 536870912),
        ("4KiB", 4096),
        ("2TiB", 2199023255552),
        ("10GB", 10_000_000_000),
        ("1073741824", 1073741824),
        ("7B", 7),
    ],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "1G", "-1GiB", "1e9", "0", "0.2B", "1 GiB more", "9999999TiB", "１GiB", "nan"]
)
def test_invalid_sizes_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"is not a size[^\n]*$"):
        parse_size(text)


def test_a_folder_may_have_colons_in_its_name() -> None:
    assert parse_disk("blocks:1KiB") == DiskSetting(Path("blocks"), 1024)
    assert parse_disk("/mnt/a:b:10GiB") == DiskSetting(Path("/mnt/a:b"), 10737418240)
    assert parse_disk("~/blocks:1") == DiskSetting(Path.home() / "blocks", 1)


@pytest.mark.parametrize("text", ["blocks", ":1GiB", " :1GiB", "blocks:", "a:b", "blocks:0", "a\0b:1GiB"])
def test_a_missing_folder_or_size_is_refused(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        parse_disk(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 160
