"""The server: the host's tools, prompt and workspace for any client."""
