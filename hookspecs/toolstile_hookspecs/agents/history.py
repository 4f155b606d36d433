"""The former name of `agents.messages`, for plugins that import it."""

from toolstile_hookspecs.agents.messages import *  # noqa: F403 - all of its names
