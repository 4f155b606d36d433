"""Coding agents: their own tools behind our stages."""
