"""Muon for the matrices of the layers, Adam for the embedding and the norms, and the learning-rate schedule.

Muon (Keller Jordan, 2024) replaces the momentum of a matrix by the nearest orthogonal matrix, computed by a few
Newton-Schulz iterations. It needs fewer tokens than Adam, which matters for training on a CPU.
"""

from __future__ import annotations

import itertools
from concurrent.futures import Executor

import torch
from torch import nn

from training.config import Section

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of the quintic in the reference implementation


def orthogonalize(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Return the matrices [..., m, n] with their singular values moved close to 1."""
    a, b, c = NEWTON_SCHULZ
    # bfloat16 is precise enough, but many CPUs only emulate it
    work = matrices.to(torch.bfloat16) if matrices.is_cuda else matrices.clone()
    tall = work.size(-2) > work.size(-1)
    work = work.mT if tall else work
    work = work / (work.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = work @ work.mT
        work = a * work + (b * gram + c * gram @ gram) @ work
    result: torch.Tensor = (work.mT if tall else work).to(matrices.dtype)
    return result


class Optimizer:
    """Both optimizers of a model, with named state for checkpoints."""

    def __init__(self, model: nn.Module, config: Section) -> None:
        self.config = config
        named = list(model.named_parameters())
        self.matrices = {n: p for n, p in named if p.ndim == 2 and "embed_tokens" not in n and "lm_head" not in n}
        self.others = {n: p for n, p in named if n not in self.matrices}
        self.names_by_shape: dict[torch.Size, list[str]] = {}  # names by shape; batched, because launches limit a GPU
        for name, parameter in self.matrices.items():
            self.names_by_shape.setdefault(parameter.shape, []).append(name)
        self.state: dict[str, torch.Tensor] = {}
        for name, parameter in self.matrices.items():
            self.state[f"momentum.{name}"] = torch.zeros_like(parameter)
        for name, parameter in self.others.items():
            self.state[f"first.{name}"] = torch.zeros_like(parameter)
            self.state[f"second.{name}"] = torch.zeros_like(parameter)

    @torch.no_grad()
    def step(self, number: int, scale: float, pool: Executor) -> None:
        """Update every parameter. `number`: step number from 1; `scale`: factor of the schedule.

        The threads of `pool` share the matrices, which need most of the time.
        """
        list(
            pool.map(
                self._step_matrices, self.names_by_shape.values(), itertools.repeat(self.config["muon_lr"] * scale)
            )
        )
        beta1, beta2 = 0.9, 0.98
        for name, parameter in self.others.items():
            gradient = parameter.grad
            assert gradient is not None
            first, second = self.state[f"first.{name}"], self.state[f"second.{name}"]
            first.lerp_(gradient, 1 - beta1)
            second.lerp_(gradient.square(), 1 - beta2)
            corrected = (second / (1 - beta2**number)).sqrt_().add_(1e-9)
            parameter.addcdiv_(first, corrected, value=-self.config["adam_lr"] * scale / (1 - beta1**number))
            parameter.grad = None

    @torch.no_grad()  # a setting of each thread
    def _step_matrices(self, names: list[str], rate: float) -> None:
        parameters, mixed = [self.matrices[name] for name in names], list[torch.Tensor]()
        for name, parameter in zip(names, parameters, strict=True):
            gradient, momentum = parameter.grad, self.state[f"momentum.{name}"]
            assert gradient is not None
            momentum.lerp_(gradient, 0.05)
            mixed.append(gradient.lerp(momentum, 0.95))
        for parameter, update in zip(parameters, orthogonalize(torch.stack(mixed)), strict=True):
            parameter.mul_(1 - rate * self.config["weight_decay"])
            parameter.add_(update, alpha=-rate * max(1.0, parameter.size(0) / parameter.size(1)) ** 0.5)
            parameter.grad = None


def schedule(progress: float, config: Section) -> float:
    """Return the learning-rate factor at `progress` in [0, 1]: linear warm-up, constant, linear decay to `final_lr`."""
    if progress < config["warmup"]:
        start: float = config["warmup"]
        return max(progress / start, 0.01)
    left: float = (1 - min(progress, 1.0)) / config["decay"]
    floor: float = config["final_lr"]
    return max(min(left, 1.0), floor)
