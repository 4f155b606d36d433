"""Whole packages to begin with: what `toolstile new` writes."""
