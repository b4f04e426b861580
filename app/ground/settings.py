"""Settings of the server. Those of an engine are in `engine.config.EngineConfig`."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, replace

from app.ground.limits import Limits
from engine.config import EngineConfig

MIB = 1024 * 1024
ANONYMOUS = "anonymous"


class Policy(Struct, frozen=True, kw_only=True):
    """Limits of a client."""

    name: str
    max_waiting: int = 256  # waiting requests; further ones are refused (429)
    max_tokens: int | None = None  # tokens of a response
    deadline: float | None = None  # seconds from a request's arrival to the end of its response


class ApiSettings(Struct, frozen=True, kw_only=True):
    """Settings of the OpenAI-compatible API."""

    keys: dict[str, Policy] = {}  # policy of each client, by the SHA-256 of its key; {}: all clients are accepted
    default: Policy = Policy(name=ANONYMOUS)  # policy of all clients if there are no keys
    max_waiting: int = 1024  # waiting requests of all clients for one engine
    allowed_origins: tuple[str, ...] = ()  # other sites whose pages may call the API; "*": any
    is_private: bool = False  # whether pages, logs and recordings lack texts and token ids of requests

    @property
    def clients(self) -> list[str]:
        """Names of the clients with a key."""
        return [policy.name for policy in self.keys.values()]


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Settings of the server: access, defaults of a new session, and limits."""

    host: str = "127.0.0.1"
    token: str | None = None  # if set, required in every request
    root_path: str = ""  # path below which a proxy serves the server, "/user/ann/proxy/8765"; "": X-Forwarded-Prefix
    allowed_hosts: tuple[str, ...] = ()  # additional values of the Host header; "*": any
    config: EngineConfig = EngineConfig()
    configs: dict[str, EngineConfig] = {}  # by model, for models with their own settings
    lessons: Path | None = None  # folder of the user's lessons, in addition to the shipped ones
    tokenizers: dict[str, str] = {}  # name -> folder or hub name, of further tokenizers for the page /prompts
    traffic: Path | None = None  # file of requests that the page /prompts/traffic follows
    presets: Path | None = None  # file of the user's models, GPUs and links for the page /scale
    recorded_lessons: Path | None = None  # folder of recorded lessons, which need no model

    max_theaters: int = 16  # sessions; a page has one, and three more during a race
    idle_seconds: float = 15 * 60.0  # without viewers and commands, after which a session is closed
    reclaim_seconds: float = 10.0  # at the limit, a session without viewers for this time is closed for a new one
    max_pool_bytes: int = 2048 * MIB  # KV pool of one session
    max_model_bytes: int | None = None  # weights of all models that are loaded; None: half of the device's memory
    max_log_bytes: int = 512 * MIB  # above it a log gets no more captures, above twice of it no more records

    message_queue: str | None = None  # URL of a Redis that connects web workers to this process; None: no workers

    data_dir: Path | None = None  # data folder, which has the folder of recordings; None: nothing is stored
    api: ApiSettings | None = None  # None: the API is off
    class_store: str | None = None  # URL of the database of stored classes; None: a file in data_dir
    max_recording_bytes: int = 2048 * MIB  # of an uploaded recording
    max_recordings: int = 1000  # in the library
    max_library_bytes: int = 16 * 1024 * MIB  # of all recordings

    max_message_bytes: int = MIB
    limits: Limits = Limits()
    max_prompt_bytes: int = 64 * 1024
    max_prompts: int = 64  # in one submit
    max_unfinished: int = 256  # sequences of one session
    max_count: int = 10_000  # steps per command

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise ValueError(f"listening on {self.host} needs a token, because it is not the loopback interface")
        if self.token is None and self.message_queue is not None:
            raise ValueError("a server with web workers needs a token, because other machines can reach them")

    def config_of(self, model: str | None) -> EngineConfig:
        """Return the default settings of a new run on the model of that name."""
        return self.configs.get(model or "", self.config)

    def moved(self, config: EngineConfig, before: str, after: str) -> EngineConfig:
        """Return a run's settings for its move to another model, with the new model's defaults."""
        old, new = self.config_of(before), self.config_of(after)
        changed = {name: value for name, value in asdict(config).items() if value != getattr(old, name)}
        return replace(new, **changed)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
