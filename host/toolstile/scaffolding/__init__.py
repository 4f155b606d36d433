"""Whole packages to begin with: what `toolyard new` writes."""
