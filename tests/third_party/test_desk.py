"""A stranger's help desk governs by who asks; it knows the contract alone."""

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

from toolstile import Host, Settings, ToolCall
from toolstile_cli.main import main
from toolstile_hookspecs import Principal, RequestTurn, Secret, Status
from toolstile_plugins.record import Recording
from toolstile_plugins.record.replayer import replayed

PACKAGE = Path(__file__).parent / "toolstile-desk"
ISSUER = "https://id.example.org"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """The package, installed as pip leaves it."""
    info = tmp_path / "site" / "toolstile_desk-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: toolstile-desk\nVersion: 1.0.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text("[toolstile]\ndesk = toolstile_desk\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(PACKAGE / "src"), str(info.parent), *sys.path])
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module("toolstile_desk")
    for name in [each for each in sys.modules if each.split(".")[0] == "toolstile_desk"]:
        del sys.modules[name]


def governed(kind, **fields):
    """A host with the desk, the recorder, and one policy of the desk's."""
    policy = {"kind": f"desk_{kind}", **fields}
    return Host(settings=Settings(policies=(policy,)), discover=["desk", "record"])


def test_it_imports_the_contract_alone():
    [module] = PACKAGE.rglob("*.py")
    tree = ast.parse(module.read_text(encoding="utf-8"))
    named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in named if name.startswith("toolstile")} == {"toolstile_hookspecs"}


# --- Who asks


@pytest.mark.parametrize(
    ("principal", "told"),
    [
        (Principal(ISSUER, "ada", {"staff"}), None),
        (Principal(ISSUER, "ada", {"guests"}), "Only members of staff"),
        (Principal("https://evil.example", "ada", {"staff"}), "Only members of staff"),
        (Principal(ISSUER, "bob", {"staff"}, Secret({"suspended": True})), "bob is suspended"),
        (None, "Only members of staff"),
    ],
)
def test_its_policy_looks_at_source_groups_and_claims(desk, principal, told):
    with (
        governed("members", source=ISSUER, group="staff") as host,
        host.executor(principal=principal) as tools,
    ):
        outcome = tools.dispatch(ToolCall("open_ticket", {"title": "a"}))
    assert outcome.status is (Status.SUCCEEDED if told is None else Status.DENIED)
    assert told is None or told in outcome.text


# --- What they ask for


def test_its_policy_reads_the_request_and_the_groups(desk, tmp_path):
    ada = Principal(ISSUER, "ada", {"staff"})
    late = {"title": "broken printer"}
    file = tmp_path / "calls.jsonl"
    settings = Settings(
        policies=({"kind": "desk_asked_for", "group": "staff"},),
        plugins={"record": {"file": str(file)}},
    )
    with Host(settings=settings, discover=["desk", "record"]) as host:
        with host.executor(principal=ada, request="The printer is on fire.") as tools:
            denied = tools.dispatch(ToolCall("open_ticket", late))
            tools.request(RequestTurn("It is broken.", host.clock.now(), "eve"))
            still = tools.dispatch(ToolCall("open_ticket", late))
            tools.request("It is broken by now.")
            allowed = tools.dispatch(ToolCall("open_ticket", late))
        guest = Principal(ISSUER, "bob", {"guests"})
        with host.executor(principal=guest, request="My broken printer.") as tools:
            foreign = tools.dispatch(ToolCall("open_ticket", late))
    assert [denied.text, still.text] == ["ada did not ask for broken."] * 2
    assert allowed.text == "# broken printer"
    assert foreign.text == "Only members of staff may call open_ticket."
    with Host(settings=settings.replaced(plugins={}), discover=["desk", "record"]) as host:
        compared = list(replayed(host, Recording.load(file)))
    assert [each.status for each in compared] == ["denied", "denied", "succeeded", "denied"]
    assert not any(each.differs for each in compared)


# --- Work that goes on later


def test_its_command_goes_on_in_a_saved_session(desk, tmp_path, capsys):
    file = tmp_path / "session.json"
    with Host(settings=Settings(), discover=["desk"]) as host, host.executor() as tools:
        tools.dispatch(ToolCall("open_ticket", {"title": "lost key"}))
        file.write_text(tools.session.snapshot().to_json(), encoding="utf-8")
    for number in (2, 3):
        assert main(["desk-work", str(file), "--title", f"ticket {number}"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["texts"] == [f"# ticket {number}", f"{number} for ada in night by desk"]
        assert len(told["pages"]) == number
        assert told["beats"] == 1
        assert told["tools"]["open_ticket"] == ["title"]
        assert told["offered"] == ["print_tickets"]
    with Host(settings=Settings(), discover=["desk"]) as host:
        session = host.session(file.read_text(encoding="utf-8"))
    titles = [ticket.title for ticket in session[desk.Ticket].all()]
    assert titles == ["lost key", "ticket 2", "ticket 3"]
    assert [turn.user_id for turn in session[RequestTurn].all()] == ["ada"] * 4
