"""Adapters over the client libraries of model providers.

Each adapter is an entry point, and imports its library at its first request.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.agents.provider import ProviderAdapter
from toolstile_hookspecs.support.text import suggest

ADAPTERS: Final = "toolstile.adapters"
"""The group of entry points; each is a class, or a function, that takes a model."""


def adapter_named(name: str, **options: Any) -> ProviderAdapter:
    """Return an adapter by `provider:model`; its client is made at its first request.

    Args:
        name: The provider, and after a colon the model.
        **options: Options of the adapter, such as `base_url`.

    Raises:
        ConfigurationError: When the provider is unknown or cannot be imported.
    """
    provider, _, model = name.partition(":")
    found = {each.name: each for each in entry_points(group=ADAPTERS)}
    if provider not in found or not model:
        near = "" if provider in found else suggest(provider, found)
        raise ConfigurationError(
            f"{name!r} names no model of a known provider{near or '.'} "
            f"Write PROVIDER:MODEL; the providers are {', '.join(sorted(found))}."
        )
    try:
        make = found[provider].load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"The adapter {provider!r} cannot be imported: {error}") from error
    adapter: ProviderAdapter = make(model, **options)
    return adapter
