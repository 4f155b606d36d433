"""Output on a terminal: console, tables and the report of a run."""
