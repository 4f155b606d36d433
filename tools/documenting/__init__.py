"""Writes the reference from the code, so that it says what the code does."""
