"""The exit statuses, as shells and scripts see them."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit status of a command; a signal adds 128 to its number, as in shells."""

    OK = 0
    """Everything succeeded."""
    FAILED = 1
    """A call failed."""
    USAGE = 2
    """The input, the configuration or the command itself was wrong; no call was made."""
    INTERNAL = 70
    """Something in Toolstile or a plugin broke that should not have."""
    HUNG_UP = 129
    """Ended by SIGHUP, when its terminal was closed."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output stopped reading."""
    TERMINATED = 143
    """Ended by SIGTERM."""
