"""LiteLLM's adapter, whose tests leave no connection open."""

from __future__ import annotations

import os
from typing import Any

import openai

from toolstile_plugins.agent.providers.litellm import LiteLLM

# The table of prices that LiteLLM would fetch when it is imported.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


class ClosingLiteLLM(LiteLLM):
    """Closes the clients that LiteLLM keeps for the whole process."""

    def close(self) -> None:
        for client in _kept():
            if isinstance(client, openai.OpenAI):
                client.close()

    async def aclose(self) -> None:
        for client in _kept():
            if isinstance(client, openai.AsyncOpenAI):
                await client.close()


def _kept() -> list[Any]:
    import litellm  # slow

    kept = litellm.in_memory_llm_clients_cache
    clients = list(kept.cache_dict.values())
    kept.flush_cache()
    return clients
