"""SQL queries over a log: its tables, and saved queries."""
