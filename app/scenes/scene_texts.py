"""Scenes with their words, as /api/model has them."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

Translated = dict[str, str]  # language -> text; English is always there
TranslatedList = dict[str, list[str]]  # likewise
Kind = Literal["presets", "museum"]


def scene_texts(kind: Kind, scene: Struct) -> dict[str, Any]:
    """Return a scene's fields, and each of its texts by language; its `prompts` are a list in each."""
    fields = asdict(scene)
    words = {language: texts.get(kind, {}).get(fields["id"], {}) for language, texts in _words().items()}
    names = words["en"]
    return {
        **fields,
        **{name: {language: text[name] for language, text in words.items() if name in text} for name in names},
    }


def prompts_of(kind: Kind, scene_id: str, language: str) -> list[str]:
    """Return the scene's prompts for readers of `language`."""
    texts = _words().get(language, {}).get(kind, {}).get(scene_id, {})
    prompts = texts.get("prompts", _words()["en"][kind][scene_id]["prompts"])
    assert isinstance(prompts, list)
    return prompts


def languages() -> list[str]:
    """Return the languages with words."""
    return list(_words())


@functools.cache
def _words() -> dict[str, dict[str, dict[str, dict[str, str | list[str]]]]]:
    """Return language -> kind -> scene -> name -> text, or texts."""
    found = [file for file in files("app.scenes").iterdir() if file.name.endswith(".json")]
    return {
        file.name.split(".")[1]: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(found, key=lambda file: file.name)
    }
