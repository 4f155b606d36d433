"""The command line: reads calls, drives them through the host, and shows their ends."""
