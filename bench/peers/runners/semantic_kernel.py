"""Semantic Kernel: the kernel given a function call of a model, and a chat history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contestant import Awaiting, Contestant, Offer, Way
from semantic_kernel import Kernel
from semantic_kernel.contents import ChatHistory, FunctionCallContent
from semantic_kernel.functions import kernel_function


@asynccontextmanager
async def _invoked(offer: Offer) -> AsyncIterator[Awaiting]:
    kernel, history = Kernel(), ChatHistory()
    functions = [kernel_function(function, name=name) for name, function in offer.tools.items()]
    kernel.add_functions("bench", functions)

    async def call(name: str, arguments: str) -> str:
        asked = FunctionCallContent(
            id="1",
            name=f"bench-{name}",
            plugin_name="bench",
            function_name=name,
            arguments=arguments,
        )
        await kernel.invoke_function_call(asked, history)
        return str(history.messages[-1].items[0].result)

    yield call


CONTESTANT = Contestant(
    distributions=("semantic-kernel",),
    ways=(
        Way(
            "`Kernel.invoke_function_call`",
            "lookup, validation, filters, a message in the chat history",
            _invoked,
            keeps=True,
        ),
    ),
)
