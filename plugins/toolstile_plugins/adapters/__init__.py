"""Adapters into the agents that people have: one module per framework, imported by its user."""
