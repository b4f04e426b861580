"""Settings of KV cache compression, which drops the keys and values of ("forgets") single tokens per head."""

from __future__ import annotations

from typing import Literal, NamedTuple

PolicyName = Literal["window", "h2o", "tova", "snapkv", "key_norm", "expected_attention", "random"]


class ForgetSettings(NamedTuple):
    """Settings of KV cache compression: after the prompt and every `every` tokens, a KV head retains `budget` tokens.

    The first `sinks` tokens and the `recent` newest ones are always retained.
    """

    policy: PolicyName
    budget: int = 64
    sinks: int = 4
    recent: int = 8
    every: int = 1  # tokens; 0: after the prompt only
    pool: int = 5  # positions over which SnapKV averages its scores
    seed: int = 0

    def is_due(self, num_computed: int, num_prompt_tokens: int) -> bool:
        """Return whether the policy drops tokens once `num_computed` tokens are computed."""
        later = num_computed - num_prompt_tokens
        return later == 0 or (later > 0 and self.every > 0 and later % self.every == 0)
