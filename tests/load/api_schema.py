"""Fuzz the API with bodies generated from OpenAI's own schema, valid and invalid: none may cause a 5xx.

Usage: python -m tests.load.api_schema URL CASES [SEED]
Schemathesis generates bodies from the schema shipped with llm-comply, and looks for 5xx responses. It does not support
streamed completions, so tests with OpenAI's client check the types of responses.
"""

import copy
import importlib.resources
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from app.openai.bodies import ChatBody, CompletionBody

ENDPOINTS = {"/completions": ["post"], "/chat/completions": ["post"], "/models": ["get"]}
TEXT = {"type": "string", "minLength": 1}
IDS = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0, "maximum": 4000}}
PROMPT = {"anyOf": [TEXT, IDS, *({"type": "array", "minItems": 1, "maxItems": 4, "items": one} for one in (TEXT, IDS))]}
MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "additionalProperties": False,
    "properties": {
        "role": {"type": "string", "enum": ["system", "developer", "user", "assistant"]},
        "content": {"type": "string"},
    },
}


def restricted(schema: dict[str, Any], model: str, only_implemented: bool) -> dict[str, Any]:
    """Return the schema of the tested endpoints for one model, with all fields or only the implemented ones."""
    schema = copy.deepcopy(schema)
    paths = {path: {method: schema["paths"][path][method] for method in ENDPOINTS[path]} for path in ENDPOINTS}
    bodies = schema["components"]["schemas"]
    kinds: list[tuple[str, type[Struct]]] = [
        ("CreateCompletionRequest", CompletionBody),
        ("CreateChatCompletionRequest", ChatBody),
    ]
    for name, kind in kinds:
        parts = [part for part in bodies[name].get("allOf", [bodies[name]]) if "$ref" not in part]
        properties = {key: value for part in parts for key, value in part["properties"].items()}
        properties["model"] = {"type": "string", "enum": [model]}
        required = [key for part in parts for key in part.get("required", [])]
        if only_implemented:
            known = {field.name for field in fields(kind)}
            properties = {key: value for key, value in properties.items() if key in known}
            if "prompt" in properties:  # OpenAI's schema has no bounds for token ids, so nearly all would be refused
                properties["prompt"] = PROMPT
            if "messages" in properties:
                properties["messages"] = {"type": "array", "minItems": 1, "items": MESSAGE}
        bodies[name] = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return schema | {"paths": paths, "security": []}


def main() -> int:
    url, cases, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "0"
    text = importlib.resources.files("llm_comply").joinpath("specs/openai_chat.json").read_text(encoding="utf-8")
    failed = 0
    for only_implemented in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "openai.json"
            file.write_text(json.dumps(restricted(json.loads(text), "bundled", only_implemented)))
            arguments = ["run", str(file), "--url", f"{url}/v1", "--max-examples", str(cases // 4), "--seed", seed]
            arguments += ["--checks", "not_a_server_error", "--phases", "examples,fuzzing"]
            arguments += ["--generation-database", "none", "--request-timeout", "60", "--suppress-health-check", "all"]
            program = str(Path(sys.executable).parent / "schemathesis")
            failed |= subprocess.run([program, *arguments], check=False, cwd=folder).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
