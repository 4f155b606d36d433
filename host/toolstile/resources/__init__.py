"""Resources by type: bound in a registry, opened in a container, seen by a call through a scope."""
