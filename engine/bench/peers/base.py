"""Interface of a peer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from engine.bench.measurement import Measurement
    from engine.bench.models import Models
    from engine.bench.workload import WorkloadRequest
    from engine.config import EngineConfig, SamplingParams


class PeerError(Exception):
    """The peer cannot run this job; the message is one sentence for the table."""


class Peer(ABC):
    """Another engine that runs the same weights, prompts and lengths; outputs are compared token by token."""

    package: ClassVar[str]  # package to install
    module: ClassVar[str]  # module to import

    def unavailable(self) -> str | None:
        """Return why the peer cannot run on this machine, or None."""
        return None if find_spec(self.module) else f"{self.package} is not installed (pip install 'kvtheater[bench]')"

    def version(self) -> str:
        """Return the package's name and version."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    @abstractmethod
    def load(self, models: Models, model: str, dtype: str) -> None:
        """Load a model. Any exception means that the peer cannot run."""

    @abstractmethod
    def run(self, requests: list[WorkloadRequest], sampling: SamplingParams, config: EngineConfig) -> Measurement:
        """Serve all requests. Times start when the first request can be submitted.

        Raises:
            PeerError: the peer cannot run this job.
        """

    def close(self) -> None:  # noqa: B027
        """Release the model."""


def refuse_arrivals(requests: list[WorkloadRequest], peer: str) -> None:
    """Raise PeerError unless all requests arrive at the beginning."""
    if any(request.at > 0 or request.at_step or request.after is not None for request in requests):
        raise PeerError(f"{peer} takes all requests at once; here some arrive later")


def refuse_sampling(sampling: SamplingParams, peer: str) -> None:
    """Raise PeerError unless decoding is greedy with one output; sampled outputs cannot be compared."""
    if sampling.temperature != 0 or sampling.num_sequences > 1:
        raise PeerError(f"{peer} is compared under greedy decoding only")
