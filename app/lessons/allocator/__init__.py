"""Allocator exercise: the learner performs the block manager's operations, which are graded against the run's."""
