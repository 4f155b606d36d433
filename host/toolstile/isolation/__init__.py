"""Handlers in a process of their own, which is killed with all it started.

This bounds what a handler can hang or leak; it is no boundary against hostile code.
"""
