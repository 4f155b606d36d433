"""Feedback and checks of completion by configuration, of any kind; `toolstile check-done`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.pseudo_terminal import COMMAND

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Settings, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import ConfigurationError, DefinitionError
from toolstile_hookspecs.agents.guidance import Feedback, FeedbackProviderConfig, FeedbackTrigger
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    RunFailed,
    StaticFeedback,
    ToolsCalledChecker,
)

EVERY = FeedbackTrigger(every_n_calls=1)
STATIC = {"kind": "static", "text": "Be brief.", "every_n_calls": 1}


@tool(category="read")
def look() -> str:
    """Look."""
    return "seen"


def settings(**agent: Any) -> Settings:
    return Settings(plugins={"agent": agent})


def run(given: Settings, *script: Any, template: Any = None, config: Any = None) -> Any:
    """Run a script; return the session."""
    section = MarkdownSection(key="s", title="S", tools=[look])
    prompt = Prompt(template or PromptTemplate("demo", "p", [section]))
    with Host(settings=given, discover=["agent"]) as host:
        agent = Agent[str](prompt, adapter=ScriptedModel(*script), host=host, config=config)
        return agent.execute("Go")[1]


def summaries(session: Any) -> list[str]:
    return [each.summary for each in session[Feedback].all()]


def test_a_table_of_the_host_gives_feedback_on_any_prompt() -> None:
    table = {"kind": "deadline", "every_n_seconds": 60, "warning_threshold": 5.0}
    given = settings(feedback_providers=[STATIC, table])
    assert summaries(run(given, [("look", {})], "Done.")) == ["Be brief."]


def test_the_configuration_of_an_agent_adds_its_own() -> None:
    config = AgentConfig(
        feedback_providers=[FeedbackProviderConfig(StaticFeedback("And?", "mine"), EVERY)]
    )
    found = run(settings(feedback_providers=[STATIC]), [("look", {})], "Done.", config=config)
    assert sorted(summaries(found)) == ["And?", "Be brief."]


def test_names_are_unique_over_configuration_and_prompt() -> None:
    template = PromptTemplate(
        "demo", "p", feedback_providers=[FeedbackProviderConfig(StaticFeedback("a"), EVERY)]
    )
    with pytest.raises(DefinitionError, match="two feedback providers have the name static"):
        run(settings(feedback_providers=[STATIC]), "Done.", template=template)


def test_checkers_of_the_host_must_all_pass() -> None:
    tables = [{"kind": "plan"}, {"kind": "tools_called", "names": ["look"]}]
    given = settings(task_completion=tables)
    with pytest.raises(RunFailed, match="have not succeeded yet: look"):
        run(given, "1", "2", "3")
    run(given, [("look", {})], "Done.")


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"kind": "statik"}, "kind: 'statik' is not known; did you mean 'static'?"),
        ({"kind": "static", "text": "a"}, "never fires"),
        ({**STATIC, "txt": "b"}, "txt"),
        ({"kind": "no_progress", "n": 0, "every_n_calls": 1}, "n: input should be greater than 0"),
        ({"every_n_calls": 1}, "kind: '' is not known. Known: budget, deadline"),
        ("static", "expected a table, found the text 'static'"),
        ({**STATIC, "every_n_calls": 0}, "more than 0"),
        ({**STATIC, "every_n_seconds": "soon"}, "every_n_seconds"),
    ],
)
def test_a_table_that_does_not_fit_is_told_with_its_place(table: Any, told: str) -> None:
    with (
        pytest.raises(ConfigurationError) as failed,
        Host(settings=settings(feedback_providers=[STATIC, table]), discover=["agent"]),
    ):
        pass
    assert "plugins.agent.feedback_providers[1]" in str(failed.value)
    assert told in str(failed.value)


STRANGER = """\
from dataclasses import dataclass

from toolstile_hookspecs.agents.guidance import Feedback, TaskCompletionResult


@dataclass
class Weather:
    city: str
    name: str = "weather"

    def should_run(self, context):
        return True

    def provide(self, context):
        return Feedback(f"It rains in {self.city}.")


class Never:
    def check(self, context):
        return TaskCompletionResult.incomplete("Nothing is ever done.")
"""


def installed(folder: Path) -> None:
    metadata = folder / "their_guides-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "their_guides.py").write_text(STRANGER)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-guides\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[toolstile.feedback]\nweather = their_guides:Weather\ngone = their_guides:Gone\n"
        "[toolstile.completion]\nnever = their_guides:Never\n"
    )


def test_the_kind_of_a_stranger_is_one_class_and_one_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    weather = {"kind": "weather", "city": "Bergen", "every_n_calls": 1}
    given = settings(feedback_providers=[weather])
    assert summaries(run(given, [("look", {})], "Done.")) == ["It rains in Bergen."]
    gone = settings(feedback_providers=[{"kind": "gone", "every_n_calls": 1}])
    with pytest.raises(ConfigurationError, match="'gone' cannot be imported"):
        run(gone, "Done.")


def check_done(folder: Path, *arguments: str) -> tuple[int, str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TOOLSTILE_")}
    done = subprocess.run(
        [COMMAND, "check-done", *arguments],
        cwd=folder,
        env={**kept, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long
def test_a_command_says_what_is_missing_and_has_the_status_of_its_verdict(tmp_path: Path) -> None:
    assert check_done(tmp_path) == (0, "", "")
    (tmp_path / "toolstile.toml").write_text(
        '[[plugins.agent.task_completion]]\nkind = "files"\nfiles = ["a.md"]\n'
    )
    missing = "These files are missing: a.md."
    assert check_done(tmp_path, "--workspace", ".") == (1, f"{missing}\n", "")
    status, out, _ = check_done(tmp_path, "I am done.", "--workspace", ".", "--json")
    assert (status, json.loads(out)) == (1, {"complete": False, "feedback": missing})
    (tmp_path / "a.md").write_text("a")
    assert check_done(tmp_path, "--workspace", ".") == (0, "", "")


@pytest.mark.long
@pytest.mark.slow
def test_a_command_asks_about_a_stored_session_and_refuses_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "toolstile.toml").write_text(
        '[plugins.sessions]\npath = "all.db"\n[plugins.ledger]\npath = "all.db"\n'
        '[[plugins.agent.task_completion]]\nkind = "tools_called"\nnames = ["look"]\n'
    )
    given = Settings(plugins={"sessions": {"path": str(tmp_path / "all.db")}})
    prompt = Prompt.of("demo", "p", [MarkdownSection(key="s", title="S", tools=[look])])
    config = AgentConfig(task_completion=ToolsCalledChecker(["look"]))
    for name, script in [("done", [[("look", {})], "Done."]), ("open", ["1", "2", "3"])]:
        with Host(settings=given, discover=["agent", "sessions"]) as host:
            model = ScriptedModel(*script)
            agent = Agent[str](prompt, adapter=model, host=host, config=config)
            agent.run("Go", session_id=name)

    assert check_done(tmp_path, "--session", "done") == (0, "", "")
    missing = "These tools have not succeeded yet: look.\n"
    assert check_done(tmp_path, "--session", "open") == (1, missing, "")
    status, out, err = check_done(tmp_path, "--session", "opened")
    assert (status, out) == (2, "")
    assert "No session 'opened' is stored here" in err


@pytest.mark.parametrize("url", ["localhost:11434/v1", ""])
def test_an_address_without_its_scheme_is_told_with_its_place(url: str) -> None:
    with (
        pytest.raises(
            ConfigurationError, match=r"plugins\.agent\.base_url: .* begins with http://"
        ),
        Host(settings=settings(base_url=url), discover=["agent"]),
    ):
        pass


def test_a_price_below_nothing_is_told_with_its_place() -> None:
    prices = {"tiny": {"input": -1.0, "output": 2.0}}
    with (
        pytest.raises(ConfigurationError, match=r"plugins\.agent\.prices\.tiny\.input"),
        Host(settings=settings(prices=prices), discover=["agent"]),
    ):
        pass
