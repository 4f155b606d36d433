"""The suites of dispatchers and of marks of a start, and the processes that they kill."""
