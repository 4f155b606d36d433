"""The command line: reads calls, drives them through the host, shows what became of them."""
