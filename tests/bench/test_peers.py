import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).parents[2] / "bench"
RUN = BENCH / "peers" / "run.py"
RUNNER = """
import sys
from contextlib import contextmanager
from json import loads
from by_hand import checked_by_hand
from contestant import Contestant, Way

@contextmanager
def opened(offer):
    def call(name, arguments):
        function = offer.tools[name]
        checked = checked_by_hand(function) if name == "create_order" else function
        return str(checked(**loads(arguments)))

    yield call

@contextmanager
def broken(offer):
    yield lambda name, arguments: "cannot " + name

print("what a library prints at its start")
CONTESTANT = Contestant(
    ("pydantic",),
    (
        Way("plain", "nothing", opened, handlers=("sync",), keeps=True),
        Way("broken", "nothing", broken, handlers=("sync",)),
    ),
)
"""
DEAD = "raise SystemExit('The runner has nothing to run.')"
MUTE = "import time; time.sleep(3600)"


@pytest.fixture
def found(bench):
    """Return what makes findings, with the given figures for calls."""

    def make(name, *, governs, **calls):
        described = {
            "versions": {name: "1.0"},
            "kept": [],
            "ways": [
                {
                    "name": "call",
                    "includes": "all",
                    "handlers": ["sync"],
                    "governs": governs,
                    "keeps": False,
                    "times_out": True,
                }
            ],
        }
        seen = {"ran_with": None, "answer": "comment?", "raised": False}
        findings = bench.findings.Findings(
            bench.peers.Peer(name, name),
            described=described,
            watched={"unknown": seen, "text": {**seen, "ran_with": {"a": "17", "b": 25}}},
        )
        for work, ratios in calls.items():
            series = findings.calls[0, work, "sync"] = bench.findings.Series()
            for ratio in ratios:
                series.add(timing(1e-6, ratio * 1e-6))
        return findings

    return make


def timing(floor, subject):
    return {
        "floor": floor,
        "subject": subject,
        "fastest_floor": floor,
        "fastest_subject": subject,
    }


def row(report, *starts):
    (line,) = (
        line
        for line in report.splitlines()
        if [cell.strip() for cell in line.split("|")[1 : 1 + len(starts)]] == list(starts)
    )
    return [cell.strip() for cell in line.split("|")[1 + len(starts) : -1]]


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds(bench):
    series = bench.findings.Series()
    for floor, subject in ((1.0, 10.0), (4.0, 12.0), (2.0, 50.0)):
        series.add(timing(floor, subject))
    assert series.ratio == 10
    assert series.fastest == 10
    assert series.seconds == 12


def test_growth_is_seen_in_relation_to_the_floor_of_its_moment(bench):
    growth = bench.findings.Growth()
    early = {"floor": 1.0, "subject": 10.0}
    growth.add({"early": early, "late": {"floor": 2.0, "subject": 60.0}, "calls": 500})
    assert growth.ratio == 3
    assert growth.calls == 500


def test_what_governs_stands_apart_from_what_only_calls(bench, found):
    report = bench.tables.report(
        [found("One", governs=True, add=[20, 30, 25]), found("Two", governs=False, add=[5])],
        "22 November 2026",
    )
    assert "Measured on 22 November 2026" in report
    assert "Versions: One 1.0, Two 1.0." in report
    governing, others = report.split("### Others")
    assert row(governing, "One", "call") == ["-", "25.0 (20.0)", "-", "-", "-"]
    assert row(others.partition("###")[0], "Two", "call") == ["-", "5.0 (5.0)", "-", "-", "-"]
    assert "| Two" not in governing


def test_what_was_seen_of_odd_arguments_is_told(bench, found):
    report = bench.tables.report([found("One", governs=True)], "today")
    odd = report.partition("### Odd arguments")[2].partition("###")[0]
    assert row(odd, "One") == ["refused", "reached the tool as text, `'17'`"]


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"answer": "late", "after": 1.02, "ended": True}, ["back after 1.0 s", "ended by itself"]),
        (
            {"answer": None, "after": 3.0, "ended": False},
            ["not back after 3.0 s", "had to be killed"],
        ),
    ],
)
def test_what_came_of_a_tool_that_never_returns_is_told(bench, found, seen, told):
    findings = found("One", governs=True)
    findings.blocked = {
        "way": "call",
        "timeout": "set",
        "entered": True,
        "loop_went_on": True,
        **seen,
    }
    report = bench.tables.report([findings], "today")
    returned = report.partition("### A tool that never returns")[2]
    assert row(returned, "One") == ["call", "set", told[0], "went on", told[1]]


def test_a_peer_that_is_absent_is_reported_with_the_reason(bench, found):
    absent = bench.findings.Findings(bench.peers.Peer("Gone", "gone"), absent="no such project")
    failing = found("Half", governs=False, add=[])
    failing.faults["call: add, sync handler"] = "it broke"
    report = bench.tables.report([absent, failing], "today")
    assert "- Gone: no such project" in report
    assert "- Half, call: add, sync handler: it broke" in report
    calls = report.partition("### Others")[2].partition("###")[0]
    assert row(calls, "Half", "call")[:2] == ["-", "failed"]


def test_only_those_that_govern_are_to_be_ahead_of(bench, found):
    own = found("Own", governs=True, add=[20], create_order=[2])
    dearer = found("Dearer", governs=True, add=[100], create_order=[1.5])
    lighter = found("Lighter", governs=False, add=[1], create_order=[1])
    assert bench.findings.behind(own, [dearer, lighter]) == ["create_order, sync handler: Dearer"]


def test_what_failed_once_is_not_asked_again(bench, found):
    findings = found("One", governs=True)
    asked = []

    def ask(do, limit, **arguments):
        asked.append(do)
        raise bench.worker.PeerFailedError("it broke")

    job = bench.rounds.Job("a job", findings, 2, "take", {}, asked.append)
    for number in range(2):
        bench.rounds.visit([job], number, {"One": SimpleNamespace(ask=ask)})
    assert asked == ["take"]
    assert findings.faults == {"a job": "it broke"}


def test_the_tables_take_the_place_of_the_last_ones(bench, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A\n\n{bench.pages.BEGIN}\n\nold\n\n{bench.pages.END}\n\nrest\n")
    bench.pages.put_into(page, "new\n")
    assert page.read_text() == f"# A\n\n{bench.pages.BEGIN}\n\nnew\n\n{bench.pages.END}\n\nrest\n"
    page.write_text("# A\n")
    with pytest.raises(ValueError, match="has no place for the tables"):
        bench.pages.put_into(page, "new")


def test_an_awaited_way_is_entered_and_left_by_one_task_whose_variables_calls_see(bench):
    tasks = []
    session = ContextVar("session")

    @asynccontextmanager
    async def opened(offer):
        tasks.append(asyncio.current_task())
        session.set("the session")

        async def call(name, arguments):
            return f"{name} {arguments} in {session.get()}"

        yield call
        tasks.append(asyncio.current_task())

    way = bench.contestant.Way("awaited", "nothing", opened)
    with bench.ways.opened_call(way, bench.contestant.Offer({})) as call:
        assert call("add", "{}") == "add {} in the session"
    assert tasks[0] is tasks[1]


def test_a_way_that_cannot_be_entered_says_why(bench):
    @asynccontextmanager
    async def opened(offer):
        raise LookupError("there is no server")
        yield

    way = bench.contestant.Way("awaited", "nothing", opened)
    with (
        pytest.raises(LookupError, match="there is no server"),
        bench.ways.opened_call(way, bench.contestant.Offer({})),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False])
def test_a_session_whose_length_may_count_is_short(bench, keeps):
    sessions = []

    @contextmanager
    def opened(offer):
        sessions.append(0)

        def call(name, arguments):
            sessions[-1] += 1
            return 42

        yield call

    way = bench.contestant.Way("counted", "nothing", opened, keeps=keeps)
    timing = bench.sampling.take(way, bench.sampling.WORKS["add"], "sync", 0.02)
    assert timing.subject >= timing.fastest_subject > 0
    if keeps:
        assert max(sessions) <= bench.sampling.SHORT_SESSION
    else:
        # One to see that it is done, one that is measured.
        assert len(sessions) == 2


def test_what_answers_wrongly_is_not_measured(bench):
    @contextmanager
    def opened(offer):
        yield lambda name, arguments: "no"

    way = bench.contestant.Way("wrong", "nothing", opened)
    with pytest.raises(bench.sampling.NotDoneError, match="add was answered with: no"):
        bench.sampling.take(way, bench.sampling.WORKS["add"], "sync", 0.01)


@pytest.mark.slow
def test_a_rollback_that_leaves_the_file_is_not_measured(bench):
    written = set()

    @contextmanager
    def opened():
        yield bench.contestant.Attempt(lambda: written.add("new.txt"), lambda: bool(written))

    with pytest.raises(bench.sampling.NotDoneError, match="is still there"):
        bench.sampling.put_back(opened(), bench.sampling.WORKS["add"], 0.01)


def test_every_peer_has_a_runner_of_its_own(bench):
    runners = {path.stem for path in (BENCH / "peers" / "runners").glob("*.py")}
    assert {peer.runner for peer in bench.peers.PEERS} == runners


@pytest.fixture(scope="module")
def measured(bench, tmp_path_factory):
    """Find out about three peers: one that works, one that ends at once, one of no project."""
    folder = tmp_path_factory.mktemp("peers")
    for name, text in (("works", RUNNER), ("dead", DEAD)):
        (folder / f"{name}.py").write_text(text)
    peers = [
        bench.peers.Peer("Works", str(folder / "works.py")),
        bench.peers.Peer("Dead", str(folder / "dead.py")),
    ]
    found = bench.rounds.compare(peers, folder, bench.rounds.QUICK, blocking=False)
    return {findings.peer.name: findings for findings in found}


@pytest.mark.slow
def test_a_peer_is_measured_in_its_own_process(measured):
    works = measured["Works"]
    assert works.absent is None
    assert works.calls[0, "add", "sync"].ratio > 0
    assert works.calls[0, "create_order", "sync"].ratio > 0
    assert works.growth[0].calls == 300
    assert works.watched["text"]["ran_with"] == {"a": "17", "b": 25}
    assert "unexpected keyword argument 'comment'" in works.watched["unknown"]["answer"]
    assert works.watched["unknown"]["raised"]


@pytest.mark.slow
def test_a_way_that_answers_wrongly_has_no_figures(measured):
    works = measured["Works"]
    assert works.calls[1, "add", "sync"].subjects == []
    assert "answered with: cannot add" in works.faults["broken: add, sync handler"]


@pytest.mark.slow
def test_a_peer_that_does_not_start_does_not_keep_the_others_from_it(measured):
    assert measured["Dead"].absent == "ended with status 1: The runner has nothing to run."


@pytest.mark.slow
def test_a_peer_that_does_not_answer_is_given_up(bench, tmp_path):
    (tmp_path / "mute.py").write_text(MUTE)
    with (
        bench.worker.working(
            Path(sys.executable), "runner.py", str(tmp_path / "mute.py"), tmp_path / "log"
        ) as worker,
        pytest.raises(bench.worker.PeerFailedError, match="no answer within"),
    ):
        worker.ask("describe", 0.5)


@pytest.mark.slow
def test_a_call_of_a_tool_that_never_returns_is_seen_from_outside(bench, tmp_path):
    (tmp_path / "works.py").write_text(RUNNER)
    peer = bench.peers.Peer("Works", str(tmp_path / "works.py"))
    seen = bench.rounds.watch_blocking(Path(sys.executable), peer, tmp_path)
    assert seen["entered"]
    assert seen["answer"] is None
    assert seen["loop_went_on"] is None
    assert not seen["ended"]


@pytest.mark.long
def test_what_cannot_be_installed_is_reported_by_the_program(tmp_path):
    ended = subprocess.run(
        [sys.executable, RUN, "--quick", "--only", "llm", "--environments", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_FIND_LINKS": "",
        },
    )
    assert ended.returncode == 0, ended.stderr
    assert "- llm: ERROR: No matching distribution found for llm" in ended.stdout
