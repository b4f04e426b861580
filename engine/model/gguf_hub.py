"""GGUF files of the Hugging Face hub. `owner/name:Q4_K_M` selects one by the end of its file name."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from huggingface_hub import HfApi, hf_hub_download, snapshot_download

from engine.model.errors import ModelError
from engine.model.gguf_file import SUFFIX
from engine.options.refusal import sentence

PROJECTOR = "mmproj"  # prefix of an image projector's file name


def hub_gguf(name: str, revision: str | None = None) -> Path:
    """Return the file that `repository:form` names; it is downloaded unless the hub's cache has it.

    Raises:
        ModelError: there is no such repository, or not exactly one such file in it; the message lists its forms.
    """
    repository, _, form = name.partition(":")
    files = gguf_forms(repository, revision)
    if not files:
        raise ModelError(sentence("gguf.none", repository=repository))
    found = [path for named, path in files.items() if named.lower() == form.lower()]
    if len(found) != 1:
        raise ModelError(sentence("gguf.form", repository=repository, form=form, forms=", ".join(files)))
    try:
        return Path(hf_hub_download(repository, found[0], revision=revision))
    except Exception as error:  # the hub's clients have many error classes
        raise ModelError(
            sentence("gguf.download", file=found[0], repository=repository, reason=_sentence(error))
        ) from error


def gguf_forms(repository: str, revision: str | None = None) -> dict[str, str]:
    """Return the single-file GGUF models of a repository, by the form at the end of their names (Q4_K_M).

    Without a network only files in the hub's cache are found. Empty if there is no such repository.
    """
    try:
        listed = HfApi().list_repo_files(repository, revision=revision)
    except Exception:  # the hub's clients have many error classes
        try:
            folder = Path(snapshot_download(repository, revision=revision, local_files_only=True))
        except Exception:
            return {}
        listed = [path.relative_to(folder).as_posix() for path in folder.rglob(f"*{SUFFIX}")]
    paths = [PurePosixPath(one) for one in sorted(listed) if one.endswith(SUFFIX)]
    models = [path for path in paths if "-of-" not in path.stem and not path.name.startswith(PROJECTOR)]
    return {_form(path.stem): str(path) for path in models}


def _form(stem: str) -> str:
    """Return the part of a file name after its last hyphen or full stop: Qwen3-0.6B-Q4_K_M -> Q4_K_M."""
    return stem.replace(".", "-").rpartition("-")[2]


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split(". ")[0].split())[:200]
