"""What an author should mend in a plugin, found without calling any tool."""
