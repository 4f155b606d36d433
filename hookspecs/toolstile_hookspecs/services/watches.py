"""The former name of `services.workspace`, for plugins that import it."""

from toolstile_hookspecs.services.workspace import *  # noqa: F403 - all of its names
