"""Rules in the configuration."""
