"""Calls wait for the turn to commit, but not for themselves; both on an event loop."""

import asyncio

from toolstile import Host, MarkdownSection, Prompt, ToolCall, tool
from toolstile_hookspecs import Status, hookimpl


class Participant:
    def __init__(self, prepare, commit):
        self.prepare, self.commit = prepare, commit

    def rollback(self):
        return None


def outcome_of_both(handler, prepare, commit):
    """Dispatch `outer`; return its outcome and, under "other", what its doing came to."""
    found = {}

    class Joins:
        @hookimpl
        def toolstile_snapshot(self, context, tool):
            ours = tool.name == "outer"
            return Participant(lambda: prepare(found), lambda: commit(found)) if ours else None

    @tool
    async def outer() -> int:
        """Dispatch something beside the call."""
        return await handler(found)

    @tool
    async def other() -> int:
        """Return two."""
        return 2

    section = MarkdownSection(key="s", title="S", tools=[outer, other])

    async def main():
        prompt = Prompt.of("d", "s", [section])
        with Host(discover=False, plugins=[Joins()]) as host, host.executor(prompt=prompt) as tools:
            found["tools"] = tools
            outcome = await tools.adispatch(ToolCall("outer", {}))
            if "task" in found:
                found["other"] = await found["task"]
            return outcome

    return asyncio.run(main()), found.get("other")


def test_a_task_that_nobody_awaits_waits_for_its_turn():
    async def starts_a_task(found):
        async def later():
            await asyncio.sleep(0.05)
            return await found["tools"].adispatch(ToolCall("other", {}))

        found["task"] = asyncio.ensure_future(later())
        return 1

    outcome, other = outcome_of_both(starts_a_task, lambda _: None, lambda _: asyncio.sleep(0.2))
    assert outcome.success
    assert other.success


def test_a_participant_that_awaits_a_call_as_a_task_is_refused_at_once():
    async def returns(_):
        return 1

    async def gathers(found):
        call = found["tools"].adispatch(ToolCall("other", {}))
        found["other"] = await asyncio.wait_for(asyncio.gather(call), 2)

    outcome, other = outcome_of_both(returns, gathers, lambda _: None)
    assert outcome.success
    assert other[0].status is Status.ERROR
