"""How servers are reached: over the pipes of a program, or over HTTP, within limits."""
