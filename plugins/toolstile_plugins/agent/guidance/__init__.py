"""Guidance of a model: feedback after its calls, and checks before its end is accepted."""
