"""Index over the free queues, which finds a block in the middle of a queue without a linear search.

A hit revives a block from anywhere in the queue. With a linear search of up to 2^18 blocks for each hit, a small file
could take a minute to read.
"""

from __future__ import annotations

from bisect import bisect_left


class FreeOrder:
    """Numbers of blocks that ascend along each queue. Change the queues, which are plain lists, only through it."""

    def __init__(self, queues: list[list[int]]) -> None:
        """Number the blocks of `queues`, in which no block occurs twice."""
        self._number = {block_id: number for queue in queues for number, block_id in enumerate(queue)}

    def push_front(self, queue: list[int], block_id: int) -> None:
        self._number[block_id] = self._number[queue[0]] - 1 if queue else 0
        queue.insert(0, block_id)

    def push_back(self, queue: list[int], block_id: int) -> None:
        self._number[block_id] = self._number[queue[-1]] + 1 if queue else 0
        queue.append(block_id)

    def pop_head(self, queue: list[int]) -> None:
        del self._number[queue.pop(0)]

    def to_front(self, queue: list[int], block_ids: range) -> None:
        """Move blocks of the queue to its head, in this order. O(queue)."""
        queue[:] = [*block_ids, *(block_id for block_id in queue if block_id not in block_ids)]
        self._number.update((block_id, number) for number, block_id in enumerate(queue))

    def remove(self, queue: list[int], block_id: int) -> None:
        """Remove a block. Raises ValueError if it is not in the queue."""
        number = self._number.pop(block_id, None)
        if number is None:
            raise ValueError(f"block {block_id} is not in the free queue")
        del queue[bisect_left(queue, number, key=lambda other: number if other == block_id else self._number[other])]
