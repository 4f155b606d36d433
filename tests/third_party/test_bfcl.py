"""A stranger's package of stateful backends runs recorded sessions, with faults and without.

Its wheel is installed beside the host's into a clean environment. Every session goes through
`toolstile run`: each result and the final state must be the expected ones.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DATA = Path(os.environ.get("TOOLSTILE_BFCL_DATA", ROOT.parent / "shared" / "data" / "bfcl"))
BACKENDS = ("bfcl-eval==2026.3.23", "mpmath==1.3.0")
FAULT = "injected fault"
TRAVELLER = (
    "client_id",
    "client_secret",
    "refresh_token",
    "grant_type",
    "user_first_name",
    "user_last_name",
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (DATA / "sessions.jsonl").is_file(),
        reason=f"no recorded sessions in {DATA}; TOOLSTILE_BFCL_DATA can name their folder",
    ),
]

Json = dict[str, Any]


def command(*parts: str | os.PathLike[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command without the surroundings' settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TOOLSTILE_", "COVERAGE_", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        [os.fspath(part) for part in parts],
        cwd=cwd,
        env={**kept, "TOOLSTILE_BFCL_DATA": str(DATA)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )


def succeed(*parts: str | os.PathLike[str], cwd: Path) -> str:
    """Runs a command that must succeed; shows all it said when it does not."""
    done = command(*parts, cwd=cwd)
    if done.returncode != 0:
        pytest.fail(f"{parts} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Environment:
    """Where the package, the host and the backends are installed."""

    folder: Path

    def program(self, name: str) -> Path:
        """The path of one of its programs."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin") / name


@dataclass(frozen=True)
class Ran:
    """The files that one `toolstile run` left."""

    status: int
    envelopes: list[Json]
    final_state: Json
    complaints: str


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A clean environment with both wheels and, without their requirements, the backends."""
    folder = tmp_path_factory.mktemp("bfcl")
    for project in (ROOT, HERE / "toolstile-bfcl"):
        succeed(
            sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", project,
            cwd=folder,
        )  # fmt: skip
    succeed(sys.executable, "-m", "virtualenv", folder / "venv", cwd=folder)
    made = Environment(folder / "venv")
    install = (made.program("python"), "-m", "pip", "install", "--quiet")
    succeed(*install, *(folder / "dist").glob("*.whl"), "pytest", cwd=folder)
    succeed(*install, "--no-deps", *BACKENDS, cwd=folder)
    return made


@pytest.fixture(scope="module")
def sessions() -> list[Json]:
    """The recorded sessions."""
    lines = (DATA / "sessions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def homes() -> dict[str, str]:
    """The suite that each tool belongs to."""
    suites = json.loads((DATA / "suites.json").read_text(encoding="utf-8"))
    return {each["name"]: suite for suite, methods in suites.items() for each in methods}


def calls_of(session: Json) -> Iterator[Json]:
    """All calls of a session, in order."""
    for turn in session["turns"]:
        yield from turn["calls"]


def run(
    environment: Environment, folder: Path, session: Json, calls: list[Json], *options: str
) -> Ran:
    """Runs calls through the command line, in the session's start state."""
    here = folder / session["id"]
    here.mkdir()
    (here / "start.json").write_text(json.dumps(session["initial_config"]), encoding="utf-8")
    lines = "".join(json.dumps(call) + "\n" for call in calls)
    (here / "calls.jsonl").write_text(lines, encoding="utf-8")
    table = {"suites": session["suites"], "start": "start.json", "final_state": "final.json"}
    settings = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
    (here / "toolstile.toml").write_text(f"[plugins.bfcl]\n{settings}\n", encoding="utf-8")
    program = environment.program("toolstile")
    config = ("--config", "toolstile.toml")
    done = command(program, "run", "calls.jsonl", "--json", *config, *options, cwd=here)
    final = here / "final.json"
    return Ran(
        done.returncode,
        [json.loads(line) for line in done.stdout.splitlines()],
        json.loads(final.read_text(encoding="utf-8")) if final.is_file() else {},
        done.stderr,
    )


def exact(value: Any) -> str:
    """A text that is the same for the same JSON, and tells 1 from 1.0."""
    return json.dumps(value, sort_keys=True)


def differences(session: Json, calls: list[Json], ran: Ran) -> list[str]:
    """The differences from the expected answers and the final state."""
    values = [value for turn in session["expected"]["results"] for value in turn]
    expected = dict(zip([call["id"] for call in calls_of(session)], values, strict=True))
    found: list[str] = []
    if [each["id"] for each in ran.envelopes] != [call["id"] for call in calls]:
        found.append(f"status {ran.status}, answers {ran.envelopes}, said {ran.complaints}")
    for envelope in ran.envelopes:
        if envelope["id"] not in expected:
            if FAULT not in envelope.get("error", ""):
                found.append(f"not the injected fault: {envelope}")
        elif envelope.keys() != {"id", "tool", "fetchedAt", "data"}:
            found.append(f"failed: {envelope}")
        elif exact(envelope["data"]) != exact(expected[envelope["id"]]):
            found.append(f"{envelope} is not {expected[envelope['id']]}")
    if exact(ran.final_state) != exact(session["expected"]["final_state"]):
        found.append(f"final state {ran.final_state}")
    failures = len(calls) > len(expected)
    if ran.status != int(failures):
        found.append(f"exit status {ran.status}: {ran.complaints}")
    return found


def check_all(
    environment: Environment,
    folder: Path,
    sessions: list[Json],
    prepare: Callable[[int, Json], list[Json]],
    *options: str,
) -> None:
    """Runs all sessions, two at a time; fails with all that is not as expected."""

    def run_one(place: int) -> list[str]:
        session = sessions[place]
        calls = prepare(place, session)
        ran = run(environment, folder, session, calls, *options)
        return [f"{session['id']}: {each}" for each in differences(session, calls, ran)]

    with ThreadPoolExecutor(2) as pool:
        found = [each for some in pool.map(run_one, range(len(sessions))) for each in some]
    if found:
        shown = [each[:1000] for each in found[:20]]
        pytest.fail("\n".join([f"{len(found)} differences", *shown]), pytrace=False)


def changes(suite: str, session: Json, number: int) -> list[Json]:
    """Calls that change a suite's state whatever it is."""
    config = session["initial_config"].get(suite, {})
    name = f"fault{number}"
    user = {
        "username": config.get("username", "john"),
        "password": config.get("password", "john123"),
    }
    people = list(config.get("user_map", {"Alice": "USR001", "Bob": "USR002"}).values())
    message = {"receiver_id": people[1], "message": name}
    login = {"username": name, "password": "secret"}
    traveller: Json = dict.fromkeys(TRAVELLER, name)
    wanted: dict[str, list[tuple[str, Json]]] = {
        "GorillaFileSystem": [("mkdir", {"dir_name": name}), ("cd", {"folder": name})],
        "MessageAPI": [("message_login", {"user_id": people[0]}), ("send_message", message)],
        "TwitterAPI": [("authenticate_twitter", user), ("post_tweet", {"content": name})],
        "TicketAPI": [("ticket_login", login), ("create_ticket", {"title": name})],
        "TradingBot": [("trading_login", login), ("fund_account", {"amount": 1})],
        "TravelAPI": [("authenticate_travel", traveller)],
        "VehicleControlAPI": [("set_navigation", {"destination": name}), ("get_current_speed", {})],
    }
    return [{"name": each, "arguments": arguments} for each, arguments in wanted[suite]]


#: Suites whose first change needs no other before it, so that it can be vetoed by itself.
DIRECT = {"GorillaFileSystem", "TicketAPI", "TravelAPI", "VehicleControlAPI"}

WAYS = ("veto", "raise_after", "raise_after_change", "refuse_after", "raise_after_waiting")


def fault(way: str, number: int, suite: str, session: Json, call: Json) -> Json:
    """A call that fails after it has changed a suite's state."""
    changing = changes(suite, session, number)
    if way == "veto" and suite in DIRECT:
        return {"id": f"veto-{number}", **changing[0]}
    here = {"name": call["name"], "arguments": call["arguments"]}
    arguments: Json = {"calls": [here, *changing]}
    if way == "raise_after_change":
        arguments["suite"] = suite
    name = "raise_after" if way == "veto" else way
    return {"id": f"fault-{number}", "name": name, "arguments": arguments}


@pytest.mark.long
def test_the_packages_own_tests_pass(environment, tmp_path):
    said = succeed(
        environment.program("python"), "-m", "pytest", "-p", "no:cacheprovider", "-q",
        HERE / "toolstile-bfcl",
        cwd=tmp_path,
    )  # fmt: skip
    assert "skipped" not in said


@pytest.mark.long
def test_every_result_and_every_final_state_is_the_expected_one(environment, sessions, tmp_path):
    def prepare(_: int, session: Json) -> list[Json]:
        return list(calls_of(session))

    assert len(sessions) == 100
    check_all(environment, tmp_path, sessions, prepare)


def with_faults(place: int, session: Json, homes: dict[str, str]) -> list[Json]:
    """A session's calls, every third preceded by one that fails after it has changed state."""
    calls: list[Json] = []
    for number, call in enumerate(calls_of(session), start=1):
        if number % 3 == 0:
            suite = homes[call["name"]]
            if suite == "MathAPI":  # it has no state
                suite = next(each for each in session["suites"] if each != suite)
            way = WAYS[(place + number // 3) % len(WAYS)]
            calls.append(fault(way, number, suite, session, call))
        calls.append(call)
    return calls


@pytest.mark.parametrize(
    "every", [pytest.param(5, id="fifth"), pytest.param(1, id="all", marks=pytest.mark.long)]
)
def test_calls_that_fail_leave_no_trace(environment, sessions, homes, tmp_path, every):
    def prepare(place: int, session: Json) -> list[Json]:
        return with_faults(place, session, homes)

    # All suites and all ways to fail are among every fifth, too.
    assert {homes[call["name"]] for each in sessions[::every] for call in calls_of(each)} == {
        *homes.values()
    }
    given = [with_faults(place, each, homes) for place, each in enumerate(sessions[::every])]
    ways = {call["id"].split("-")[0] for calls in given for call in calls}
    ways |= {call["name"] for calls in given for call in calls}
    assert {"veto", *WAYS[1:]} <= ways
    plugin = ("--plugin", str(HERE / "failing_calls.py"))
    check_all(environment, tmp_path, sessions[::every], prepare, *plugin)
