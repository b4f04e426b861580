"""Questions over a whole log, in SQL: three tables, and the questions that engineers ask of them most."""
