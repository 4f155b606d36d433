"""Plugins: the host finds, loads and checks each by itself, and collects its offers."""
