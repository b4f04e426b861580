"""Allocator exercise: the learner performs the block manager's operations, graded by the run's own."""
