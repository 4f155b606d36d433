"""Stores of a workspace: in memory, on disk, from mounts."""
