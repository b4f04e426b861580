"""Finds and reads the files of a model: a folder, a GGUF file, or a repository of the Hugging Face hub.

Weights are read from safetensors and GGUF files only, and no code of the model's repository is run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import torch
from huggingface_hub import HfApi
from transformers.utils import cached_file

from engine.model.device import out_of_memory
from engine.model.errors import ModelError
from engine.model.facts import refuse_unsupported
from engine.model.gguf_file import SUFFIX, check_gguf_package, is_gguf
from engine.model.gguf_hub import gguf_forms, hub_gguf
from engine.model.light_transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from engine.model.shipped import shipped_model
from engine.model.weight_files import check_pointer, check_weight_file
from engine.options.refusal import sentence

FileKind = Literal["configuration", "tokenizer", "weights"]
WEIGHTS = "model.safetensors"
SMALLER = sentence("memory.smaller")


class ModelFiles(NamedTuple):
    """Location of a model's files."""

    name: str  # as requested
    source: str  # a folder, or a repository of the hub
    is_local: bool
    revision: str | None = None
    gguf: str | None = None  # file name of a GGUF model

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of transformers' `from_pretrained`."""
        found = {"revision": self.revision, "local_files_only": self.is_local, "trust_remote_code": False}
        return found if self.gguf is None else {**found, "gguf_file": self.gguf}

    def read(self, kind: FileKind, read: Any, **options: Any) -> Any:
        """Call one of transformers' `from_pretrained`.

        Raises:
            ModelError: the call failed for any reason; the message is one sentence.
        """
        try:
            return read(self.source, **self.options, **options)
        except Exception as error:
            reading = sentence("memory.reading", name=self.name)
            if shortage := out_of_memory(error, torch.device("cpu"), reading, SMALLER):
                raise shortage from error
            reason = " ".join(str(error).split(". ")[0].split())[:300]
            if kind == "configuration" and isinstance(error, OSError) and not self.is_local:
                if forms := gguf_forms(self.source, self.revision):
                    example = f"{self.name}:{next(iter(forms))}"
                    raise ModelError(
                        sentence("model.gguf_only", name=self.name, forms=", ".join(forms), example=example)
                    ) from error
                raise ModelError(sentence("model.not_found", name=self.name)) from error
            if kind == "weights" and isinstance(error, OSError) and "safetensors" in str(error):
                raise ModelError(sentence("model.safetensors", name=self.name)) from error
            raise ModelError(
                sentence("model.unreadable", what=sentence(f"model.part.{kind}"), name=self.name, reason=reason)
            ) from error

    def config(self) -> Any:
        """Return the transformers configuration of a model that can be loaded.

        Raises:
            ModelError: there is no such model, or it is not supported.
        """
        config = self.read("configuration", AutoConfig.from_pretrained)
        if self.gguf is not None:  # compute dtype of "auto" on a GPU, since the stored dtype is quantized
            config.dtype = torch.bfloat16
        model_class = auto_class(config)._model_mapping.get(type(config), None)
        if model_class is None:
            raise ModelError(sentence("model.not_causal", name=self.name, kind=config.model_type))
        # A mapping entry may be a tuple of alternatives; the first is the default.
        refuse_unsupported(model_class[0] if isinstance(model_class, tuple) else model_class, config)
        return config

    def weight_names(self) -> set[str]:
        """Return the names of the weight files; empty if the model has no safetensors."""
        if self.beside(WEIGHTS) is not None:
            return {WEIGHTS}
        index = self.beside(f"{WEIGHTS}.index.json")
        return set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()) if index else set()

    def check(self) -> Self:
        """Check the files of a local folder; the hub's client checks the files that it downloads.

        Raises:
            ModelError: a file is incomplete, or not of the expected kind.
        """
        folder = Path(self.source)
        for path in folder.glob("*.json"):
            check_pointer(path, f"{self.name}/{path.name}")
        for path in map(folder.joinpath, sorted(self.weight_names())):
            if path.is_file():
                check_weight_file(path, f"{self.name}/{path.name}")
        return self

    def beside(self, name: str) -> Path | None:
        """Return the path of another file of the model, downloaded from the hub if necessary; None: there is none."""
        if self.gguf is not None:
            return None
        if self.is_local:
            path = Path(self.source) / name
            return path if path.is_file() else None
        found = cached_file(self.source, name, revision=self.revision, _raise_exceptions_for_missing_entries=False)
        return None if found is None else Path(found)

    def weight_bytes(self) -> int:
        """Return the size of the weight files in bytes; 0 if unknown."""
        if self.is_local:
            return sum(path.stat().st_size for path in Path(self.source).glob("*.safetensors"))
        try:
            listed = HfApi().model_info(self.source, revision=self.revision, files_metadata=True).siblings or []
        except Exception:  # any error of the hub's clients; without a network the cache may still have the model
            return 0
        return sum(one.size or 0 for one in listed if one.rfilename.endswith(".safetensors"))


def model_files(name: str, revision: str | None = None) -> ModelFiles:
    """Find the files of a model by the name of a shipped model, a folder, a GGUF file, a hub name, or a hub name with
    the form of a GGUF file (`owner/name:Q4_K_M`).

    Raises:
        ModelError: there is no such folder or file, or it is damaged, or it contains no supported model.
    """
    if shipped := shipped_model(name):
        return ModelFiles(name, str(shipped.folder), True, revision)
    if Path(name).is_dir():
        if not (Path(name) / "config.json").is_file():
            raise ModelError(sentence("model.no_config", name=name))
        return ModelFiles(name, name, True, revision).check()
    if is_gguf(name):
        path = Path(name).expanduser()
        check_weight_file(path, name)
        return ModelFiles(name, str(path.parent), True, gguf=path.name)
    if ":" in name and not name.startswith((".", "/", "~")):
        check_gguf_package()
        path = hub_gguf(name, revision)
        return ModelFiles(name, str(path.parent), True, gguf=path.name)
    if name.startswith((".", "/", "~")) or name.endswith(SUFFIX) or name.count("/") > 1:
        raise ModelError(sentence("model.no_file" if name.endswith(SUFFIX) else "model.no_folder", name=name))
    return ModelFiles(name, name, False, revision)


def auto_class(config: Any) -> Any:
    """Return transformers' auto class of the model: that for text, or for text and images if there is no other."""
    is_text = type(config) in AutoModelForCausalLM._model_mapping
    is_image_text = type(config) in AutoModelForImageTextToText._model_mapping
    return AutoModelForImageTextToText if is_image_text and not is_text else AutoModelForCausalLM
