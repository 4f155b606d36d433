"""Providers: adapters over the client libraries of those who serve models.

`adapter_named("openai:MODEL")` finds one by name; each imports its library when it is first asked.
"""

from __future__ import annotations

from toolstile_plugins.agent.providers.lookup import adapter_named as adapter_named
