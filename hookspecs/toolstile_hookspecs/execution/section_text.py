"""The former name of `execution.prompt_parts`, for plugins that import it."""

from toolstile_hookspecs.execution.prompt_parts import *  # noqa: F403 - all of its names
