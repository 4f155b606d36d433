"""Transports to servers: the pipes of a program, or HTTP, within limits."""
