"""Scenes with their texts, as in the reply of /api/model."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Translated = dict[str, str]  # text by language, always including English
TranslatedList = dict[str, list[str]]  # texts by language, always including English
Kind = Literal["presets", "museum"]


def scene_texts(kind: Kind, scene: Struct) -> dict[str, Any]:
    """Return a scene's fields, and each of its texts by language (`prompts` is a list of texts)."""
    fields = asdict(scene)
    words = {language: texts.get(kind, {}).get(fields["id"], {}) for language, texts in _words().items()}
    names = words["en"]
    return {
        **fields,
        **{name: {language: text[name] for language, text in words.items() if name in text} for name in names},
    }


def prompts_of(kind: Kind, scene_id: str, language: str) -> list[str]:
    """Return the scene's prompts in `language`, or in English if there are none."""
    texts = _words().get(language, {}).get(kind, {}).get(scene_id, {})
    prompts = texts.get("prompts", _words()["en"][kind][scene_id]["prompts"])
    assert isinstance(prompts, list)
    return prompts


def languages() -> list[str]:
    """Return the languages that have texts."""
    return list(_words())


@functools.cache
def _words() -> dict[str, dict[str, dict[str, dict[str, str | list[str]]]]]:
    """Return the texts by language, kind, scene and name."""
    found = [file for file in files("app.scenes").iterdir() if file.name.endswith(".json")]
    return {
        file.name.split(".")[1]: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(found, key=lambda file: file.name)
    }
