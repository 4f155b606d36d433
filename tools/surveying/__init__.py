"""A survey of published MCP servers behind the gateway."""
