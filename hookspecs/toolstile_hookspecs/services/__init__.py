"""Protocols of services that plugins implement for one another."""
