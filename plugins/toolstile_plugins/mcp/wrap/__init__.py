"""One MCP server behind a host without a configuration: `toolstile wrap`."""
