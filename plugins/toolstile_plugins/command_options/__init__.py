"""The arguments that the built-in plugins add to the command line, and their help.

The help of a command needs no more than these modules, so they import nothing heavy.
"""
