"""Helpers for text, terminals, event loops and patterns."""
