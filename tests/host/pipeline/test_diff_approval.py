"""A contained tool runs first, and a person is shown what it would change before that is kept."""

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr

from toolstile import Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    Deadline,
    PolicyDecision,
    PromptEvaluationError,
    ResourceBusyError,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

ASKING = Settings(approve_diff=True)


@dataclass
class Page:
    """A resource whose branch shows what would change."""

    text: str = "old"

    def branch(self, context, parent):
        return PageBranch(parent or self)


class PageBranch:
    def __init__(self, base):
        self.base = base
        self.text = base.text
        self.resource = self

    def diff(self):
        return "" if self.text == self.base.text else f"-{self.base.text}\n+{self.text}"

    def prepare(self):
        return None

    def commit(self):
        self.base.text = self.text

    def rollback(self):
        self.text = self.base.text


class Lock:
    """A resource that one call at a time may have."""

    def begin(self):
        return 1

    def commit(self, savepoint):
        return None

    def rollback(self, savepoint):
        return None


@dataclass
class Approver:
    """Answers in turn, and keeps what it was shown."""

    answers: list
    shown: list = field(default_factory=list)

    def __call__(self, request):
        self.shown.append(request)
        answer = self.answers.pop(0)
        return answer(request) if callable(answer) else answer


@pytest.fixture
def page():
    return Page()


@pytest.fixture
def ran():
    return []


@pytest.fixture
def write(ran, mark):
    @tool(category="write", contained=True, requires_confirmation=True)
    def write(text: str, *, context: ToolContext) -> str:
        """Write the page."""
        ran.append(text)
        context.session[mark].append(mark(text))
        context.resources.get(Page).text = text
        return f"wrote {text}"

    return write


@pytest.fixture
def opened(yard, page):
    """Opens the yard with an approver; gives the approver."""

    def opened(*tools, answers=(), settings=ASKING, resources=(), host=(), **options):
        approver = Approver(list(answers))
        yard.open(
            *tools,
            approver=approver,
            host_options={"settings": settings, **dict(host)},
            resources=(Binding.instance(Page, page), *resources),
            **options,
        )
        return approver

    return opened


def test_the_call_runs_first_and_is_kept_once_its_diff_is_approved(yard, opened, write, page, ran):
    approver = opened(write, answers=[lambda request: (page.text, list(ran)) == ("old", ["new"])])
    outcome = yard.call("write", text="new")
    assert (outcome.status, outcome.text) == (Status.SUCCEEDED, "wrote new")
    assert (page.text, yard.marks) == ("new", ["new"])
    (request,) = approver.shown
    assert request.diff == "session:\n  Mark: added Mark(text='new')\nPage:\n  -old\n  +new"
    assert request.reasons == ("write requires confirmation.",)
    assert outcome.event.attributes["toolstile.diff"] == request.diff


def test_a_diff_stands_under_the_name_that_its_branch_has(yard, opened, write, monkeypatch):
    monkeypatch.setattr(PageBranch, "name", "the page", raising=False)
    approver = opened(write, answers=[lambda request: True])
    assert yard.call("write", text="new").success
    assert approver.shown[0].diff.endswith("the page:\n  -old\n  +new")


def test_a_denied_one_is_rolled_back_and_the_model_is_told_why(yard, opened, write, page, mark):
    opened(write, answers=[ApprovalAnswer.deny("wrong page")])
    outcome = yard.call("write", text="new")
    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "wrong page" in outcome.text
    assert "Nothing of it is kept" in outcome.text
    assert outcome.event.rolled_back
    assert (page.text, yard.marks) == ("old", [])
    assert yard.observer.rollbacks == [("write", outcome.text)]


def test_the_digest_binds_tool_params_and_diff(yard, opened, write, page):
    approver = opened(write, answers=[False, False, False])
    yard.call("write", text="new")
    page.text = "other"
    yard.call("write", text="new")
    yard.call("write", text="newer")
    digests = [request.digest for request in approver.shown]
    assert len(set(digests)) == 3


def test_nobody_to_ask_denies_before_it_runs(yard, write, ran):
    yard.open(write, host_options={"settings": ASKING})
    outcome = yard.call("write", text="new")
    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.APPROVE)
    assert "no one is available to approve it" in outcome.text
    assert ran == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "did not approve"),
        (False, "did not approve"),
        ("yes", "asking for approval failed"),
        (lambda request: 1 / 0, "asking for approval failed"),
        (ApprovalAnswer.pending(), "waits for a person's approval"),
    ],
)
def test_anything_but_an_approval_keeps_nothing(yard, opened, write, page, *, answer, words):
    opened(write, answers=[answer])
    outcome = yard.call("write", text="new")
    assert words in outcome.text
    assert not outcome.success
    assert (page.text, yard.marks) == ("old", [])
    if outcome.status is Status.PENDING:
        assert "Nothing of it is kept" in outcome.text
        assert outcome.approval_token


def test_secrets_are_masked_in_the_diff(yard, opened, mark):
    @tool(contained=True, requires_confirmation=True)
    def keep(key: SecretStr, *, context: ToolContext) -> None:
        """Keep a key."""
        context.session[mark].append(mark(key.get_secret_value()))

    approver = opened(keep, answers=[True])
    yard.call("keep", key="hunter22")
    assert approver.shown[0].diff == "session:\n  Mark: added Mark(text='***')"


def test_a_resource_that_cannot_show_changes_is_named(yard, opened, touch):
    @tool(contained=True, requires_confirmation=True)
    def change(*, context: ToolContext) -> None:
        """Change."""
        touch(context)

    approver = opened(change, answers=[True])
    yard.call("change")
    assert approver.shown[0].diff.endswith("also used, but cannot show changes: Box")


def test_a_diff_that_fails_keeps_nothing(yard, opened, write, page, monkeypatch):
    monkeypatch.setattr(PageBranch, "diff", lambda self: 1 / 0)
    opened(write, answers=[True])
    outcome = yard.call("write", text="new")
    assert outcome.status is Status.ERROR
    assert (page.text, yard.marks) == ("old", [])


def test_a_plugins_participant_may_show_its_changes_and_take_time_for_it(yard, opened):
    class Part:
        name = "database"

        async def diff(self):
            return "1 row"

        def prepare(self):
            return None

        commit = rollback = prepare

    class Plugin:
        @hookimpl
        def toolstile_snapshot(self):
            return Part()

    @tool(contained=True, requires_confirmation=True)
    def insert() -> None:
        """Insert."""

    approver = opened(insert, answers=[True], plugins=(Plugin(),))
    assert yard.call("insert").success
    assert approver.shown[0].diff == "database:\n  1 row"


# --- where it holds ---


def test_without_the_setting_the_person_is_asked_before_it_runs(yard, opened, write, ran):
    approver = opened(write, answers=[lambda request: ran == []], settings=Settings())
    assert yard.call("write", text="new").success
    assert approver.shown[0].diff is None


def test_the_setting_may_name_the_tools(yard, opened, write):
    @tool(contained=True, requires_confirmation=True)
    def other() -> None:
        """Do it."""

    approver = opened(
        write,
        other,
        answers=[True, True],
        settings=Settings(approve_diff=("write",)),
        host={"tools": [write]},
    )
    yard.call("write", text="new")
    yard.call("other")
    assert [request.diff is None for request in approver.shown] == [False, True]


@pytest.mark.parametrize("options", [{"contained": False}, {"concurrency": "serial"}])
def test_tools_not_contained_or_serial_are_asked_for_before_they_run(yard, opened, ran, options):
    @tool(requires_confirmation=True, **{"contained": True, **options})
    def send() -> None:
        """Send."""
        ran.append("sent")

    approver = opened(send, answers=[False])
    assert yard.call("send").status is Status.DENIED
    assert approver.shown[0].diff is None
    assert ran == []


def test_a_call_for_which_nothing_asks_is_not_shown(yard, opened):
    @tool(contained=True)
    def free() -> None:
        """Do it."""

    approver = opened(free)
    assert yard.call("free").success
    assert approver.shown == []


def test_an_exclusive_resource_cannot_be_had(yard, opened):
    @tool(contained=True, requires_confirmation=True)
    def take(*, context: ToolContext) -> None:
        """Take the lock."""
        context.resources.get(Lock)

    approver = opened(take, resources=(Binding.instance(Lock, Lock()),))
    outcome = yard.call("take")
    assert not outcome.success
    assert "Lock cannot be had before a person has approved take" in outcome.text
    assert approver.shown == []


# --- edits ---


def test_an_edit_is_run_afresh_and_shown_again(yard, opened, write, page, ran):
    approver = opened(write, answers=[ApprovalAnswer.edit({"text": "mine"}), True])
    outcome = yard.call("write", text="new")
    assert outcome.text == "wrote mine"
    assert ran == ["new", "mine"]
    assert (page.text, yard.marks) == ("mine", ["mine"])
    assert [request.arguments for request in approver.shown] == [
        '{"text":"new"}',
        '{"text":"mine"}',
    ]
    assert "+mine" in approver.shown[1].diff
    assert "new" not in approver.shown[1].diff
    assert outcome.event.params.text == "mine"


def test_an_edited_call_claims_anew(yard, opened, write):
    claimed = []

    class Claiming:
        @hookimpl
        def toolstile_execute(self, params):
            claimed.append(params.text)

    opened(write, answers=[ApprovalAnswer.edit({"text": "mine"}), True], plugins=(Claiming(),))
    assert yard.call("write", text="new").success
    assert claimed == ["new", "mine"]


def test_an_edit_is_shown_also_where_nothing_asks_about_it(yard, opened, page, ran, mark):
    @tool(category="write", contained=True)
    def write(text: str, *, context: ToolContext) -> str:
        """Write the page."""
        context.resources.get(Page).text = text
        return f"wrote {text}"

    class Wary:
        @hookimpl
        def toolstile_check(self, params):
            return PolicyDecision.ask("New?") if params.text == "new" else None

    approver = opened(
        write, answers=[ApprovalAnswer.edit({"text": "mine"}), True], plugins=(Wary(),)
    )
    assert yard.call("write", text="new").success
    assert len(approver.shown) == 2
    assert page.text == "mine"


def test_an_edit_to_what_was_shown_approves_it(yard, opened, write, ran):
    opened(write, answers=[ApprovalAnswer.edit('{ "text" : "new" }')])
    assert yard.call("write", text="new").success
    assert ran == ["new"]


def test_an_edit_that_does_not_fit_keeps_nothing(yard, opened, write, page):
    opened(write, answers=[ApprovalAnswer.edit({"txt": "mine"})])
    outcome = yard.call("write", text="new")
    assert outcome.status is Status.INVALID
    assert (page.text, yard.marks) == ("old", [])


def test_edited_arguments_are_checked(yard, opened, write, ran):
    class Plugin:
        @hookimpl
        def toolstile_check(self, params):
            return PolicyDecision.deny("Not mine.") if params.text == "mine" else None

    opened(write, answers=[ApprovalAnswer.edit({"text": "mine"})], plugins=(Plugin(),))
    outcome = yard.call("write", text="new")
    assert outcome.status is Status.DENIED
    assert outcome.text == (
        'A person changed the arguments to {"text":"mine"}, and these were denied: Not mine.'
    )
    assert ran == ["new"]
    assert yard.marks == []


@pytest.mark.parametrize("left", [20, 100])
def test_the_rollback_of_an_edited_call_is_told_once(yard, opened, write, left):
    class Budget:
        name, left, told = "budget", 20, 0

        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

        def reserve(self, tool, params, *, context):
            if len(params.text) > left:
                return PolicyDecision.deny("Too long.")
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context): ...

        def on_rollback(self, tool, params, *, context):
            self.told += 1

    class Plugin:
        told = 0

        @hookimpl
        def toolstile_rollback(self, reason):
            self.told += 1

    budget, plugin = Budget(), Plugin()
    answers = [ApprovalAnswer.edit({"text": "long" * 10}), True]
    opened(write, answers=answers, plugins=(plugin,), policies=[budget])
    outcome = yard.call("write", text="new")
    assert (outcome.success, outcome.event.rolled_back) == (left == 100, left == 20)
    assert (budget.told, plugin.told) == (1, 1)
    assert not yard.host.executor().runtime.calls


# --- while a person thinks ---


@pytest.fixture
def count(mark):
    @tool(contained=True, requires_confirmation=True)
    def count(*, context: ToolContext) -> None:
        """Add a mark with the number of marks."""
        context.session[mark].append(mark(str(len(context.session[mark].all()))))

    return count


@pytest.fixture
def meanwhile(yard, mark):
    """An answer before which another call commits a mark."""

    def meanwhile(request):
        yard.session[mark].append(mark("other"))
        return True

    return meanwhile


def test_a_call_run_again_after_a_conflict_asks_again_with_what_it_changes_now(
    yard, opened, count, meanwhile
):
    approver = opened(count, answers=[meanwhile, True])
    outcome = yard.call("count")
    assert outcome.success
    assert outcome.event.reruns == 1
    assert yard.marks == ["other", "1"]
    assert ["text='0'" in each.diff for each in approver.shown] == [True, False]
    assert approver.shown[0].digest != approver.shown[1].digest


def test_one_whose_diff_is_the_same_is_not_asked_for_again(yard, opened, meanwhile, mark, page):
    @tool(contained=True, requires_confirmation=True)
    def write(*, context: ToolContext) -> None:
        """Write, having read."""
        context.session[mark].all()
        context.resources.get(Page).text = "new"

    approver = opened(write, answers=[meanwhile])
    outcome = yard.call("write")
    assert (outcome.success, outcome.event.reruns) == (True, 1)
    assert len(approver.shown) == 1
    assert page.text == "new"


def test_others_commit_while_the_person_looks_at_it_again(yard, opened, count, mark):
    @tool
    def other(*, context: ToolContext) -> None:
        """Add a mark."""
        context.session[mark].append(mark("other"))

    def while_another_calls(request):
        return yard.tools.dispatch(ToolCall("other")).success

    approver = opened(count, other, answers=[while_another_calls, while_another_calls])
    outcome = yard.call("count")
    assert outcome.status is Status.CONFLICT
    assert len(approver.shown) == 2
    assert yard.marks == ["other", "other"]


def test_the_checks_run_again_on_the_state_without_the_calls_own_changes(yard, opened, write, mark):
    seen = []

    class Plugin:
        @hookimpl
        def toolstile_check(self, context):
            seen.append(
                (
                    [each.text for each in context.session[mark].all()],
                    context.resources.get(Page).text,
                )
            )
            return PolicyDecision.deny("Too late.") if seen[1:] else None

    def other(request):
        yard.session[mark].append(mark("other"))
        return True

    opened(write, answers=[other], plugins=(Plugin(),))
    outcome = yard.call("write", text="new")
    assert (outcome.status, outcome.text) == (Status.DENIED, "Too late.")
    assert seen == [([], "old"), (["other"], "old")]
    assert yard.marks == ["other"]


@pytest.mark.slow
def test_waiting_counts_against_the_deadline(yard, opened, write, page):
    opened(write, answers=[lambda request: time.sleep(0.4) or True])
    with pytest.raises(PromptEvaluationError):
        yard.dispatch(ToolCall("write", {"text": "new"}, deadline=Deadline.after(0.2)))
    assert (page.text, yard.marks) == ("old", [])
    assert yard.events[0].status is Status.DEADLINE


@pytest.mark.slow
def test_waiting_does_not_count_against_the_timeout_of_the_tool(yard, opened, mark):
    @tool(contained=True, requires_confirmation=True, timeout=1.5)
    def quick(*, context: ToolContext) -> None:
        """Add a mark."""
        context.session[mark].append(mark("x"))

    opened(quick, answers=[lambda request: time.sleep(2.5) or True])
    assert yard.call("quick").success
    assert yard.marks == ["x"]


@pytest.mark.slow
def test_an_approver_that_takes_too_long_denies_and_learns_that_it_is_too_late(
    yard, opened, write, page
):
    def slow(request):
        deadline = time.monotonic() + 10
        while not request.withdrawn.aborted and time.monotonic() < deadline:
            time.sleep(0.01)
        return True

    approver = opened(
        write, answers=[slow], settings=Settings(approve_diff=True, approval_timeout=0.1)
    )
    outcome = yard.call("write", text="new")
    assert outcome.status is Status.DENIED
    assert "the approval timed out" in outcome.text
    assert approver.shown[0].withdrawn.aborted
    assert (page.text, yard.marks) == ("old", [])


# --- what is written after it was shown ---


class Stray:
    """The rest of a handler that was given up: it writes more when it is told to."""

    def __init__(self):
        self.go, self.done = threading.Event(), threading.Event()
        self.refused = None

    def follow(self, write):
        def later():
            self.go.wait(10)
            try:
                write()
            except Exception as error:
                self.refused = error
            finally:
                self.done.set()

        threading.Thread(target=later, daemon=True).start()

    def let_write(self, request):
        self.go.set()
        assert self.done.wait(10)
        return True


@pytest.fixture
def stray():
    return Stray()


def leaving(stray, write):
    """Returns a tool whose handler leaves a thread behind, which then writes."""

    @tool(category="write", contained=True, requires_confirmation=True)
    def leave(text: str, *, context: ToolContext) -> str:
        """Write the page, and leave somebody behind who writes more."""
        context.resources.get(Page).text = text
        stray.follow(lambda: write(context))
        return f"wrote {text}"

    return leave


def test_the_session_cannot_be_written_while_a_person_looks(yard, opened, stray, mark, page):
    leave = leaving(stray, lambda context: context.session[mark].append(mark("unseen")))
    approver = opened(leave, answers=[stray.let_write])
    assert yard.call("leave", text="new").success
    assert "is read-only" in str(stray.refused)
    assert (len(approver.shown), page.text, yard.marks) == (1, "new", [])


def test_a_nested_call_cannot_join_while_a_person_looks(yard, opened, stray, mark, page):
    @tool(category="write")
    def note(*, context: ToolContext) -> str:
        """Write a mark."""
        context.session[mark].append(mark("unseen"))
        return "noted"

    def write(context):
        outcome = asyncio.run(context.acall("note", {}))
        assert not outcome.success

    opened(leaving(stray, write), note, answers=[stray.let_write])
    assert yard.call("leave", text="new").success
    assert (page.text, yard.marks) == ("new", [])


def test_what_a_resource_is_written_while_a_person_looks_is_asked_about(yard, opened, stray, page):
    def write(context):
        context.resources.get(Page).text = "more"

    approver = opened(leaving(stray, write), answers=[stray.let_write, True])
    assert yard.call("leave", text="new").success
    assert [request.diff.splitlines()[-1].strip() for request in approver.shown] == [
        "+new",
        "+more",
    ]
    assert page.text == "more"


def test_of_two_diffs_the_second_can_be_denied(yard, opened, stray, page):
    def write(context):
        context.resources.get(Page).text = "more"

    opened(leaving(stray, write), answers=[stray.let_write, False])
    assert yard.call("leave", text="new").status is Status.DENIED
    assert page.text == "old"


def test_an_approver_can_only_read_what_it_is_shown(yard, opened, write, mark):
    def append(request):
        request.context.session[mark].append(mark("the approver's"))
        return True

    opened(write, answers=[append])
    outcome = yard.call("write", text="new")
    assert outcome.status is Status.DENIED
    assert yard.marks == []


def test_what_is_written_after_the_last_look_is_not_kept(yard, opened, write, page):
    class Writing:
        @hookimpl
        def toolstile_on_result(self, context):
            context.resources.get(Page).text = "unseen"

    opened(write, answers=[True], plugins=(Writing(),))
    outcome = yard.call("write", text="new")
    assert outcome.status is Status.DENIED
    assert "came out differently" in outcome.text
    assert (page.text, yard.marks) == ("old", [])


def test_a_call_that_never_stops_changing_is_denied_in_the_end(yard, opened, page):
    numbers = iter(range(1000))

    @tool(category="write", contained=True, requires_confirmation=True)
    def change(*, context: ToolContext) -> str:
        """Write the page."""
        context.resources.get(Page).text = "new"
        return "wrote"

    def changing(request):
        request.context.resources.get(Page).text = f"new {next(numbers)}"
        return True

    approver = opened(change, answers=[changing] * 100)
    outcome = yard.call("change")
    assert outcome.status is Status.DENIED
    assert "goes on changing" in outcome.text
    assert len(approver.shown) < 30
    assert page.text == "old"


def test_calls_dispatched_together_are_each_shown_and_kept_in_order(yard, opened, write, page):
    approver = opened(write, answers=[lambda request: "b" not in request.arguments] * 3)
    calls = [ToolCall("write", {"text": text}) for text in "abc"]
    statuses = [outcome.status for outcome in yard.dispatch_all(calls)]
    assert statuses[1] is Status.DENIED
    assert yard.marks[0] == "a"
    assert "b" not in yard.marks
    assert len(approver.shown) >= 3


# --- nested calls ---


@pytest.fixture(params=[False, True], ids=["first", "diff"])
def settings(request):
    """Approve-then-run, and run-then-approve-the-diff."""
    return Settings(approve_diff=request.param)


def test_a_nested_call_is_asked_for_and_joins_its_parent(
    yard, opened, write, nesting, page, *, settings
):
    told = []
    outer = nesting("write", told, is_async=yard.driver == "async", text="new")
    opened(outer, write, answers=[True], settings=settings)
    assert yard.call("outer").success
    assert told[0].success
    assert (page.text, yard.marks) == ("new", ["outer", "new"])


@pytest.mark.slow
def test_a_nested_pending_counts_as_denied(yard, opened, write, nesting, settings):
    told = []
    outer = nesting("write", told, is_async=yard.driver == "async", text="new")
    opened(outer, write, answers=[ApprovalAnswer.pending("t")], settings=settings)
    yard.call("outer")
    assert told[0].status is Status.DENIED
    assert "cannot wait for it" in told[0].text
    assert yard.marks == ["outer"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["resource", "serial"])
def test_a_nested_ask_is_denied_while_an_ancestor_keeps_others_out(
    yard, opened, write, ran, *, settings, how
):
    told = []
    options = {"concurrency": "serial"} if how == "serial" else {}

    @tool(name="outer", **options)
    async def aouter(*, context: ToolContext) -> ToolResult[None]:
        """Call write."""
        if how == "resource":
            await context.resources.aget(Lock)
        told.append(await context.acall("write", {"text": "new"}))
        return ToolResult.ok()

    @tool(name="outer", **options)
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call write."""
        if how == "resource":
            context.resources.get(Lock)
        told.append(context.call("write", {"text": "new"}))
        return ToolResult.ok()

    approver = opened(
        aouter if yard.driver == "async" else outer,
        write,
        answers=[True],
        settings=settings,
        resources=(Binding.instance(Lock, Lock()),),
    )
    yard.call("outer")
    assert told[0].status is Status.DENIED
    assert "a person cannot be asked while outer holds" in told[0].text
    assert (approver.shown, ran) == ([], [])


@pytest.mark.slow
def test_no_call_around_a_nested_ask_gets_to_keep_others_out(make_yard, write, settings):
    asked, freed = threading.Event(), threading.Event()
    refusals = []

    @tool
    async def outer(*, context: ToolContext) -> str:
        """Call write, and take the lock beside it."""
        nested = asyncio.ensure_future(context.acall("write", {"text": "new"}))
        await asyncio.to_thread(asked.wait, 10)
        try:
            await context.resources.aget(Lock)
        except ResourceBusyError as error:
            refusals.append(str(error))
        freed.set()
        outcome = await nested
        await context.resources.aget(Lock)
        return outcome.text

    def approver(request):
        asked.set()
        return freed.wait(10)

    yard = make_yard("async")
    yard.open(
        outer,
        write,
        approver=approver,
        host_options={"settings": settings},
        resources=(Binding.instance(Lock, Lock()), Binding.instance(Page, Page())),
    )
    assert yard.call("outer").text == "wrote new"
    assert len(refusals) == 1
    assert "Lock cannot be had while a person is asked about a call within outer" in refusals[0]


@pytest.mark.slow
def test_waiting_for_a_nested_call_does_not_count_against_its_parents_timeout(
    yard, opened, write, settings
):
    @tool(name="outer", timeout=1.0)
    async def aouter(*, context: ToolContext) -> str:
        """Call write."""
        return (await context.acall("write", {"text": "new"})).text

    @tool(name="outer", timeout=1.0)
    def outer(*, context: ToolContext) -> str:
        """Call write."""
        return context.call("write", {"text": "new"}).text

    opened(
        aouter if yard.driver == "async" else outer,
        write,
        answers=[lambda request: time.sleep(1.5) or True],
        settings=settings,
    )
    assert yard.call("outer").text == "wrote new"


# --- what no plugin can do ---


def test_a_lookup_hook_cannot_pass_a_tool_off_as_one_that_needs_no_approval(
    yard, opened, write, ran, settings
):
    class Plugin:
        @hookimpl
        def toolstile_lookup(self, call):
            import dataclasses

            name = {"a": "write", "b": "harmless"}[json.loads(call.arguments)["text"]]
            return dataclasses.replace(write, name=name, requires_confirmation=False)

    approver = opened(write, answers=[False, False], settings=settings, plugins=(Plugin(),))
    for text in "ab":
        assert yard.call("write", text=text).status is Status.DENIED
    assert len(approver.shown) == 2
    assert yard.marks == []


def test_other_approvers_than_the_one_named_are_not_asked(yard, write, ran, settings):
    class Eager:
        @hookimpl(tryfirst=True)
        def toolstile_approve(self, request):
            ran.append("eager")
            return True

    yard.open(write, plugins=(Eager(),), host_options={"settings": settings})
    assert yard.call("write", text="new").status is Status.DENIED
    assert ran == []


def test_params_that_a_plugin_still_holds_cannot_be_changed_after_the_approval(
    yard, opened, ran, settings
):
    held = []

    @dataclass
    class Params:
        names: list[str]

    @tool(contained=True, requires_confirmation=True)
    def send(params: Params) -> None:
        """Send."""
        ran.append(list(params.names))

    class Plugin:
        @hookimpl
        def toolstile_parse(self, tool, call):
            held.append(tool.parse(call.arguments))
            return held[-1]

        @hookimpl
        def toolstile_check(self, params):
            params.names.append("evil")

        @hookimpl
        def toolstile_snapshot(self):
            held[-1].names.append("evil")

    def spoil(request):
        held[-1].names.append("evil")
        request.params.names.append("evil")
        return True

    opened(send, answers=[spoil], settings=settings, plugins=(Plugin(),))
    assert yard.call("send", names=["a"]).success
    assert ran == [["a"]]


def test_a_parse_hook_that_changes_an_edit_is_shown_to_the_person(
    yard, opened, write, ran, settings
):
    class Plugin:
        @hookimpl
        def toolstile_parse(self, tool, call):
            text = tool.parse(call.arguments).text
            return tool.parse({"text": f"{text}!"}) if text == "mine" else None

    approver = opened(
        write,
        answers=[ApprovalAnswer.edit({"text": "mine"}), lambda each: each.params.text == "mine!"],
        settings=settings,
        plugins=(Plugin(),),
    )
    assert yard.call("write", text="new").text == "wrote mine!"
    assert len(approver.shown) == 2


def test_the_call_forks_from_the_resources_as_they_are_after_the_wait(
    yard, opened, page, write, settings
):
    class Plugin:
        @hookimpl
        def toolstile_check(self, context):
            context.resources.get(Page)

    @tool(contained=True, requires_confirmation=True)
    def read(*, context: ToolContext) -> str:
        """Read the page."""
        return context.resources.get(Page).text

    def change(request):
        page.text = "changed"
        return True

    opened(read, answers=[change], settings=Settings(), plugins=(Plugin(),))
    assert yard.call("read").text == "changed"
