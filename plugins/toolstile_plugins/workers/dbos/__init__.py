"""Calls on workers through DBOS, a durable queue in PostgreSQL; needs the extra `postgres`."""
