"""A stranger's feedback and completion guide a model, and need the contract alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs.agents.guidance import FeedbackProviderConfig, FeedbackTrigger
from toolstile_plugins.agent import Agent

sys.path.insert(0, str(Path(__file__).parent))
from their_guidance import Pace, Signed


@tool(category="read")
def look() -> str:
    """Look."""
    return "seen"


def test_they_import_the_contract_alone():
    tree = ast.parse(Path(__file__).with_name("their_guidance.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name.partition(".")[0] for name in imported if name.startswith("toolstile")}
    assert ours == {"toolstile_hookspecs"}


def test_they_guide_a_model():
    signed = Signed("Ada")
    template = PromptTemplate(
        "demo",
        "letter",
        [MarkdownSection(key="l", title="Letter", tools=[look])],
        feedback_providers=[FeedbackProviderConfig(Pace(), FeedbackTrigger(every_n_calls=1))],
        task_completion=signed,
    )
    model = ScriptedModel(*[[("look", {})]] * 3, "A letter.", "A letter. Ada")
    with Host(discover=False) as host:
        result, _ = Agent[str](Prompt(template), adapter=model, host=host).execute("Write")

    assert (result.success, result.text, signed.asked) == (True, "A letter. Ada", [0, 1])
    answers = [answer.text for message in model.requests[-1].messages for answer in message.answers]
    assert answers[:2] == ["seen", "seen"]
    assert answers[2] == (
        'seen\n\n<feedback provider="pace" severity="caution">\nYou go in a circle.\n'
        "pace: look, 3 times (call 3)\nSuggestion: Read what you have.\n</feedback>"
    )
    assert model.requests[-1].messages[-1].text.startswith("Sign it with Ada.")
