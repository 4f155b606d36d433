"""Agents: the neutral conversation with a model, and what providers and guidance implement."""
