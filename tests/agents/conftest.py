"""The workspace with a hook."""

from tests.plugins.hook.conftest import hooked

__all__ = ["hooked"]
