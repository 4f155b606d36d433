"""Checks of a plugin that call no tool: the output of `toolstile check`."""
