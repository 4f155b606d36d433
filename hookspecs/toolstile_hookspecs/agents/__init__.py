"""Agents: the neutral conversation with a model, providers and guidance."""
