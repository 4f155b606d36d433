"""Adapters for agent frameworks, one module each, imported by the user of the framework."""
