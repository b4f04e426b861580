"""Lessons: a Markdown file that plays a run, asks before it shows, and grades from the run's own log."""
