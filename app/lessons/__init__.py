"""Lessons: Markdown files with a run, questions before each result, and grading from the run's log."""
