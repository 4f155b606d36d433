"""Policies check the files that a call has changed, between its handler and its commit."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Binding,
    Filesystem,
    MarkdownSection,
    Outcome,
    PolicyDecision,
    Prompt,
    PromptTemplate,
    Status,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_plugins.vfs.workspace import VirtualFilesystem

RAN: list[str] = []


def files_of(context: ToolContext) -> Filesystem:
    files = context.filesystem
    assert files is not None
    return files


@tool(timeout=None)
def put(path: str, text: str = "new", *, context: ToolContext) -> str:
    """Write a file; what else it does cannot be rolled back."""
    RAN.append(path)
    files_of(context).write(path, text)
    return f"wrote {path}"


@tool(category="read")
def look(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    return files_of(context).read(path)


@tool(requires_confirmation=True)
def put_confirmed(path: str, *, context: ToolContext) -> str:
    """Write a file, once a person has agreed to that."""
    RAN.append(path)
    files_of(context).write(path, "new")
    return f"wrote {path}"


@tool
def outer(path: str, *, context: ToolContext) -> str:
    """Write a file, and have another one written."""
    files_of(context).write("outer.txt", "new")
    return context.call("put", {"path": path}).text


@tool
def linger(*, context: ToolContext) -> str:
    """Leave a thread behind that writes when the handler has returned."""
    files = files_of(context)
    files.write("now.txt", "new")

    def write() -> None:
        CHECKED.wait(5)
        files.write("later.txt", "new")
        WRITTEN.set()

    threading.Thread(target=write).start()
    return "begun"


CHECKED, WRITTEN = threading.Event(), threading.Event()


@dataclass
class Watch:
    """A policy that says of changes what it is given to say, and remembers them."""

    says: Any = field(default_factory=PolicyDecision.allow)
    name: str = "watch"
    seen: list[list[str]] = field(default_factory=list[list[str]])

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def check_changes(self, tool: Any, changes: Any, *, context: ToolContext) -> Any:
        self.seen.append([each.path for each in changes])
        return self.says(changes) if callable(self.says) else self.says


@dataclass
class Person:
    """Answers in turn, and keeps the questions."""

    answers: list[Any]
    asked: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answers.pop(0)


@dataclass
class Place:
    """A workspace in memory, and an executor in it."""

    files: VirtualFilesystem
    host: Host
    executor: Executor

    def __call__(self, name: str, **arguments: str) -> Outcome:
        return self.executor.dispatch(ToolCall(name, arguments))

    def on_a_loop(self, name: str, **arguments: str) -> Outcome:
        return asyncio.run(self.executor.adispatch(ToolCall(name, arguments)))

    def has(self, path: str) -> bool:
        return self.files.exists(path)


Open = Callable[..., Place]
TOOLS = (put, look, put_confirmed, outer, linger)


@pytest.fixture
def place() -> Iterator[Open]:
    RAN.clear()
    with ExitStack() as stack:

        def opened(*policies: Any, person: Any = None, settings: Any = None, **more: Any) -> Place:
            files = VirtualFilesystem.in_memory({"old.txt": "old"})
            dry_run = more.pop("dry_run", False)
            host = Host(
                settings=settings or Settings(),
                policies=policies,
                approver=person,
                resources=(Binding.instance(Filesystem, files),),
                **{"tools": TOOLS, **more},
            )
            host = stack.enter_context(host)
            executor = stack.enter_context(host.executor(dry_run=dry_run))
            return Place(files, host, executor)

        yield opened


ASKS = PolicyDecision.ask("It is locked.", paths=("b.txt",))
ALONE = PolicyDecision.ask("b.txt is hers.", by_person=True, paths=("b.txt",))


async def later(decision: PolicyDecision) -> PolicyDecision:
    await asyncio.sleep(0)
    return decision


def fail(changes: object) -> PolicyDecision:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (PolicyDecision.deny("Not there. Retry elsewhere."), "Not there. Retry elsewhere."),
        (lambda _: later(PolicyDecision.deny("Not there.")), "Not there."),
        (fail, "The policy watch could not decide"),
        ("yes", "The policy watch could not decide"),
    ],
    ids=["denies", "denies later", "fails", "says something else"],
)
@pytest.mark.parametrize("way", [Place.__call__, Place.on_a_loop], ids=["sync", "async"])
def test_a_denial_keeps_nothing(place: Open, says: Any, told: str, way: Any) -> None:
    at = place(Watch(says))
    outcome = way(at, "put", path="b.txt")
    assert (outcome.status, RAN) == (Status.DENIED, ["b.txt"])
    assert told in outcome.text
    assert not at.has("b.txt")


@pytest.mark.parametrize("way", [Place.__call__, Place.on_a_loop], ids=["sync", "async"])
@pytest.mark.parametrize("decision", [ASKS, ALONE], ids=["ask", "by a person"])
def test_a_person_is_shown_the_diff_with_the_named_paths_first(
    place: Open, decision: PolicyDecision, way: Any
) -> None:
    person = Person([False, True])
    at = place(Watch(decision), person=person)
    assert not way(at, "put", path="b.txt").success
    assert not at.has("b.txt")
    assert way(at, "put", path="b.txt").success
    assert at.files.read("b.txt") == "new"
    (request, _) = person.asked
    assert request.reasons == (decision.reason,)
    assert request.by_person is decision.by_person
    assert request.diff is not None
    assert request.diff.startswith("decide on:\n  b.txt\n")
    assert "+new" in request.diff


def test_the_diff_begins_with_the_named_paths_however_much_changes(place: Open) -> None:
    @tool
    def flood(*, context: ToolContext) -> None:
        """Write much, with one small file in it."""
        for number in range(9):
            files_of(context).write(f"a{number}.txt", "much\n" * 30_000)
        files_of(context).write("z.txt", "evil\n")

    person = Person([False])
    at = place(Watch(PolicyDecision.ask("z", paths=("z.txt",))), person=person, tools=[flood])
    at("flood")
    assert person.asked[0].diff is not None
    assert person.asked[0].diff.index("+evil") < person.asked[0].diff.index("a0.txt")


def test_deny_comes_before_ask_before_allow(place: Open) -> None:
    person = Person([True])
    allows = Watch(PolicyDecision.allow(), "allows")
    asks, denies = Watch(ASKS, "asks"), Watch(PolicyDecision.deny("No. It cannot be."), "denies")
    at = place(allows, asks, denies, person=person)
    assert at("put", path="b.txt").text == "No. It cannot be."
    assert person.asked == []
    assert place(allows, asks, person=person)("put", path="b.txt").success
    assert len(person.asked) == 1


def test_only_changes_are_asked_about(place: Open) -> None:
    watch = Watch()
    at = place(watch)
    assert at("look", path="old.txt").success
    assert at("put", path="old.txt", text="old").success
    assert watch.seen == []
    assert at("put", path="new/b.txt").success
    assert watch.seen[-1] == ["new", "new/b.txt"]


def test_a_nested_call_is_asked_about_once_with_its_caller(place: Open) -> None:
    person = Person([False])
    watch = Watch(lambda changes: ALONE if len(changes) > 1 else PolicyDecision.allow())
    at = place(watch, person=person)
    assert not at("outer", path="b.txt").success
    assert watch.seen == [["b.txt", "outer.txt"]]
    assert len(person.asked) == 1
    assert not at.has("b.txt")


def test_a_policy_of_one_section_sees_what_its_tools_do_within_others(place: Open) -> None:
    watch = Watch(PolicyDecision.deny("No. It cannot be."))
    own = MarkdownSection(key="own", title="Own", tools=[put], policies=[watch])
    other = MarkdownSection(key="other", title="Other", tools=[outer])
    at = place()
    with at.host.executor(prompt=Prompt(PromptTemplate("tests", "main", (own, other)))) as executor:
        assert not executor.dispatch(ToolCall("outer", {"path": "b.txt"})).success
    assert watch.seen == [["b.txt", "outer.txt"]]


def test_without_a_person_the_model_learns_only_that_one_has_to_agree(
    place: Open, caplog: pytest.LogCaptureFixture
) -> None:
    at = place(Watch(ALONE))
    with caplog.at_level(logging.WARNING):
        outcome = at("put", path="b.txt")
    assert outcome.status is Status.DENIED
    assert "only a person may allow" in outcome.text
    assert "hers" not in outcome.text
    assert "b.txt is hers." in caplog.text
    assert not at.has("b.txt")


# --- Answers that come later


def test_an_approved_call_is_kept_without_being_run_again(place: Open) -> None:
    at = place(Watch(ALONE), person=Person([ApprovalAnswer.pending()]))
    waiting = at("put", path="b.txt")
    assert (waiting.status, at.has("b.txt")) == (Status.PENDING, False)
    done = at.executor.resume(waiting.call, waiting.approval_token or "", ApprovalAnswer.approve())
    assert done.success, done.text
    assert at.has("b.txt")


@pytest.mark.parametrize("answer", [ApprovalAnswer.approve(), ApprovalAnswer.deny("no")])
def test_a_question_before_the_call_is_not_asked_again_with_the_one_after_it(
    place: Open, answer: ApprovalAnswer
) -> None:
    person = Person([True, ApprovalAnswer.pending()])
    at = place(Watch(ALONE), person=person)
    waiting = at("put_confirmed", path="b.txt")
    assert [each.diff is None for each in person.asked] == [True, False]
    done = at.executor.resume(waiting.call, waiting.approval_token or "", answer)
    assert done.success is at.has("b.txt") is (answer == ApprovalAnswer.approve())
    assert len(person.asked) == 2


def test_a_call_resumed_with_other_arguments_is_asked_about_before_it_runs(place: Open) -> None:
    person = Person([True, ApprovalAnswer.pending(), False])
    at = place(Watch(ALONE), person=person)
    waiting = at("put_confirmed", path="b.txt")
    other = ToolCall("put_confirmed", {"path": "c.txt"}, id=waiting.call.id)
    done = at.executor.resume(other, waiting.approval_token or "", ApprovalAnswer.approve())
    assert not done.success
    assert RAN == ["b.txt"]
    assert person.asked[-1].diff is None


def test_a_call_whose_base_has_moved_is_asked_about_again(place: Open) -> None:
    person = Person([ApprovalAnswer.pending(), False])
    at = place(Watch(ALONE), person=person)
    waiting = at("put", path="b.txt")
    at.files.write("b.txt", "another's")
    done = at.executor.resume(waiting.call, waiting.approval_token or "", ApprovalAnswer.approve())
    assert not done.success
    assert at.files.read("b.txt") == "another's"


def test_edited_arguments_run_and_are_asked_about_anew(place: Open) -> None:
    person = Person([ApprovalAnswer.edit({"path": "c.txt"}), True])
    at = place(Watch(lambda changes: ALONE), person=person)
    assert at("put", path="b.txt").text == "wrote c.txt"
    assert (at.has("b.txt"), at.has("c.txt"), len(person.asked)) == (False, True, 2)


# --- What goes round it


def test_a_file_written_after_the_check_fails_the_call(place: Open) -> None:
    CHECKED.clear()
    WRITTEN.clear()

    def let_write(changes: object) -> PolicyDecision:
        CHECKED.set()
        WRITTEN.wait(5)
        return PolicyDecision.allow()

    at = place(Watch(let_write))
    outcome = at("linger")
    assert "after they had been checked" in outcome.text
    assert not at.has("now.txt")
    assert not at.has("later.txt")


def test_a_dry_run_asks_no_person_and_names_the_paths(place: Open) -> None:
    at = place(
        Watch(ALONE),
        dry_run=True,
        tools=[tool(contained=True)(_contained)],
        person=Person([]),
    )
    outcome = at("contained", path="b.txt")
    assert outcome.success
    assert str(outcome.event.attributes["toolstile.diff"]).startswith("decide on:\n  b.txt")


def _contained(path: str, *, context: ToolContext) -> None:
    """Write a file."""
    files_of(context).write(path, "new")


_contained.__name__ = "contained"


def test_a_policy_in_the_shadow_only_notes_it(place: Open) -> None:
    class Plugin:
        @hookimpl
        def toolstile_policies(self) -> dict[str, Any]:
            return {"watch": Denying}

    shadow = Settings(policies=({"kind": "watch", "shadow": True},))
    named = Settings(policies=({"kind": "watch", "users": ["eve"]},))
    at = place(settings=shadow, plugins=[Plugin()])
    outcome = at("put", path="b.txt")
    assert outcome.success
    assert outcome.event.attributes["shadow.watch@host#1"] == "deny"
    # Nobody is named, so it may be one of these.
    assert not place(settings=named, plugins=[Plugin()])("put", path="b.txt").success


@dataclass
class Denying(Watch):
    """A policy of the configuration."""

    says: Any = field(default_factory=lambda: PolicyDecision.deny("No. It cannot be."))
