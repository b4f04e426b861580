"""Be the allocator: the learner does the block manager's work for a while, and the run's own operations grade it."""
