"""Scripts of a child call the tools of the child only."""

from toolstile_hookspecs import ToolCall

from .suite import note, offer, run
from .test_governed import hosting


def test_a_script_of_a_child_calls_its_tools_only():
    with (
        hosting(note, offer) as host,
        host.executor() as executor,
        executor.child("buyer", tools=["offer", "run_python"]) as child,
    ):
        refused = run(child, "note('a')")
        assert not refused.success
        assert "note" in refused.text
        assert run(child, "offer('mug')['price']").result.value.value == 4.5
        (scripts,) = (each for each in child.prompt.tools(child.session) if "python" in each.name)
        assert "def offer(" in scripts.description + str(scripts.long_description)
        assert "def note(" not in scripts.description + str(scripts.long_description)
        assert run(executor, "note('a')").success
        assert not child.dispatch(ToolCall("note", {"text": "b"})).success
