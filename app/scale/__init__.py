"""Page /scale: sizes, roofline, queues, steps and placement by formulas."""
