"""Settings of the server itself; what concerns an engine is `engine.config.EngineConfig`."""

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
    max_waiting: int = 256  # requests that wait for the engine; the next is refused (429)
    max_tokens: int | None = None  # of an answer
    deadline: float | None = None  # seconds from a request's arrival to the end of its answer


class ApiSettings(Struct, frozen=True, kw_only=True):
    """`keys`: policy of each client, by the SHA-256 of its key; without any, all clients are accepted."""

    keys: dict[str, Policy] = {}
    default: Policy = Policy(name=ANONYMOUS)  # of clients without a key, where none is needed
    max_waiting: int = 1024  # requests that wait for one engine, of all clients
    allowed_origins: tuple[str, ...] = ()  # pages of other sites that may call the API; "*": any
    is_private: bool = False  # whether texts and token ids of requests are left out of pages, logs and records

    @property
    def clients(self) -> list[str]:
        """Names of the clients with a key."""
        return [policy.name for policy in self.keys.values()]


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Settings of the server: access, defaults of a new session, and limits."""

    host: str = "127.0.0.1"
    token: str | None = None  # required of every request when set
    root_path: str = ""  # path below which a proxy shows the server, "/user/ann/proxy/8765"; "": X-Forwarded-Prefix
    allowed_hosts: tuple[str, ...] = ()  # names, beside the server's own, that a Host header may have; "*": any
    config: EngineConfig = EngineConfig()
    configs: dict[str, EngineConfig] = {}  # by model, for models with their own settings
    lessons: Path | None = None  # folder of the user's lessons, in addition to the shipped ones
    tokenizers: dict[
        str, str
    ] = {}  # that the page /prompts offers beside the bundled model's: folder or hub name, by name
    traffic: Path | None = None  # a file of requests that the page /prompts/traffic follows
    presets: Path | None = None  # file of the user's models, GPUs and links for the page /scale
    recorded_lessons: Path | None = None  # folder of recorded lessons, which need no model

    max_theaters: int = 16  # sessions: a page has one, and three more during a race
    idle_seconds: float = 15 * 60.0  # after this time without viewers and commands a session is closed
    reclaim_seconds: float = 10.0  # at the limit, a session without viewers for this time is closed for a new one
    max_pool_bytes: int = 2048 * MIB  # KV pool of one session
    max_model_bytes: int | None = None  # weights of all models that are loaded; None: half of the device's memory
    max_log_bytes: int = 512 * MIB  # beyond it a session stores no more captures, beyond twice of it no more records

    message_queue: str | None = None  # URL of a Redis that connects web workers to this process; None: no workers

    data_dir: Path | None = None  # folder of the recordings' folder; None: nothing is stored
    api: ApiSettings | None = None  # None: the API is off
    class_store: str | None = None  # a database for stored classes; None: a file in data_dir
    max_recording_bytes: int = 2048 * MIB  # of an uploaded recording
    max_recordings: int = 1000  # in the library
    max_library_bytes: int = 16 * 1024 * MIB  # of the whole library

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
            raise ValueError("web workers need a token: others reach them")

    def config_of(self, model: str | None) -> EngineConfig:
        """Return the default settings of a new run on the model of that name."""
        return self.configs.get(model or "", self.config)

    def moved(self, config: EngineConfig, before: str, after: str) -> EngineConfig:
        """Return a run's settings on another model: defaults are replaced by the new model's."""
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
