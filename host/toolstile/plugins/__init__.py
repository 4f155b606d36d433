"""Plugins: found, loaded each by itself, checked, and asked for what they offer."""
