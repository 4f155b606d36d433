"""The execution of calls: who asks, for what, and with which options."""
