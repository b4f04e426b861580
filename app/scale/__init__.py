"""Page /scale: sizes, roofline, queues, steps and placement, computed by formulas."""
