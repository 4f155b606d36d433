"""With every default, an approval outlives the host that asked and the one that took it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from toolstile import Host, MarkdownSection, Prompt, Settings
from toolstile.testing import ScriptedModel
from toolstile_cli.main import main
from toolstile_hookspecs import ApprovalAnswer, ConfigurationError, Status, ToolCall
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.agent import Agent
from toolstile_plugins.inbox import answers_to, aresume_pending, resume_pending, waiting_run
from toolstile_plugins.sessions.sqlite import SqliteSessions

from .conftest import KEY, PAID, House, inbox_of, only, pay, say

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")
PROMPT = Prompt.of("tests", "till", [MarkdownSection(key="till", title="Till", tools=[pay])])


def opened(house: House, **more):
    return house.host(wait="pending", stored=True, by_default=True, **more)


def agent_of(host, *replies) -> Agent:
    return Agent[str](PROMPT, adapter=ScriptedModel(*replies), host=host)


def by_call(house, _):
    (outcome,) = resume_pending(house.tools(opened(house)))
    return outcome.text


def by_call_async(house, _):
    (outcome,) = asyncio.run(aresume_pending(house.tools(opened(house))))
    return outcome.text


def by_same_call(house, _):
    return house.tools(opened(house)).dispatch(CALL).text


def by_command(house, capsys):
    assert main(["--config", str(configured(house)), "approvals", "resume", "--json"]) == 0
    return capsys.readouterr().out


def configured(house: House) -> Path:
    """Return a configuration file of a host like those of the house, with nothing else."""
    tables = f'path = "{house.folder}/inbox/inbox.db"\n[plugins.sessions]\n'
    tables += f'path = "{house.folder}/state/state.db"\n[plugins.ledger]\n'
    tables += f'path = "{house.folder}/state/state.db"\n'
    if (url := house.folder / "url").exists():
        tables = f'key = "{house.folder}/inbox/inbox.key"\n'
        tables += f'[plugins.database]\nurl = "{url.read_text()}"\n'
    (house.folder / "tills.py").write_text(
        "from toolstile import MarkdownSection\n"
        "from toolstile_hookspecs import hookimpl\n"
        f"from {__package__}.conftest import pay\n"
        "@hookimpl\n"
        "def toolstile_sections():\n"
        '    return [MarkdownSection(key="till", title="Till", tools=[pay])]\n'
    )
    file = house.folder / "toolstile.toml"
    file.write_text(f'plugin_files = ["tills.py"]\napprover = "inbox"\n[plugins.inbox]\n{tables}')
    return file


@pytest.fixture
def shared(shared: House) -> House:
    # The commands read the system's clock.
    shared.clock.advance(time.time() - shared.clock.now().timestamp())
    return shared


@pytest.mark.parametrize("resumed", [by_call, by_call_async, by_same_call, by_command])
def test_a_call_is_asked_about_approved_and_resumed_by_three_hosts(shared, resumed, capsys):
    assert shared.tools(opened(shared)).dispatch(CALL).status is Status.PENDING
    inbox = inbox_of(shared.tools(opened(shared), session_id="another"))
    assert inbox.lost(only(inbox)) is None
    say(inbox)
    assert "Paid 5 to ada." in resumed(shared, capsys)
    assert PAID == ["ada"]
    assert shared.tools(opened(shared)).dispatch(CALL).status is Status.PENDING  # asked anew


def test_a_token_holds_once_over_all_hosts(shared):
    waits = shared.tools(opened(shared)).dispatch(CALL)
    hosts = [shared.tools(opened(shared)) for _ in range(2)]
    first, second = [tools.resume(waits.call, waits.approval_token, True) for tools in hosts]
    assert first.success
    assert "used before" in second.text
    assert PAID == ["ada"]


def test_a_run_is_resumed_by_another_host(shared):
    agent_of(opened(shared), [("pay", {"to": "ada"})]).execute("Pay Ada.", session_id="s")
    say(inbox_of(shared.tools(opened(shared), session_id="another")))
    host = opened(shared)
    tools, agent = shared.tools(host), agent_of(host, "Paid.")
    state = waiting_run(tools, PROMPT)
    assert state is not None
    assert agent.resume(state, answers_to(inbox_of(tools), state))[0].text == "Paid."
    assert PAID == ["ada"]


def new_key(house):
    """Make the disk of the key fresh, as a new machine beside a kept database has it."""
    (house.folder / "inbox" / "inbox.key").unlink()


def configured_key(house):
    """Seal approvals with a key that is configured later."""
    file = house.folder / "toolstile.toml"
    file.write_text(f'approval_key = "{KEY}"\n{file.read_text()}')


@pytest.mark.parametrize("lose", [new_key, configured_key])
def test_a_question_whose_key_is_gone_is_shown_as_such_and_cannot_be_answered(shared, lose, capsys):
    assert shared.tools(opened(shared)).dispatch(CALL).status is Status.PENDING
    config = ["--config", str(configured(shared))]
    main([*config, "approvals", "list"])
    ticket = capsys.readouterr().out.splitlines()[1].split()[0]
    # Because the doctor misses the tables for workers, they are made where there is a database.
    main([*config, "database", "upgrade"])
    assert main([*config, "doctor"]) == 0
    capsys.readouterr()

    lose(shared)
    assert main([*config, "approvals", "list"]) == 0
    assert "key is gone" in capsys.readouterr().out
    main([*config, "approvals", "list", "--json"])
    assert "sealed" in json.loads(capsys.readouterr().out)["lost"]
    main([*config, "approvals", "show", ticket])
    assert "  lost " in capsys.readouterr().out
    assert main([*config, "approvals", "approve", ticket]) != 0
    assert "sealed" in capsys.readouterr().err
    assert main([*config, "doctor"]) == 1
    assert f"question {ticket}" in capsys.readouterr().out
    # Whoever looks makes no key.
    assert (lose is new_key) != (shared.folder / "inbox" / "inbox.key").exists()
    assert main([*config, "approvals", "withdraw", ticket]) == 0
    assert "is withdrawn" in capsys.readouterr().out
    assert main([*config, "doctor"]) == 0


def test_without_a_place_for_used_approvals_the_host_does_not_open(tmp_path):
    settings = Settings(approver="inbox", plugins={"inbox": {"path": str(tmp_path / "inbox.db")}})
    store = SqliteSessions(tmp_path / "state.db")
    host = Host(settings=settings, block=["sessions", "ledger"], resources={SessionStore: store})
    with pytest.raises(ConfigurationError, match=r"lost with this process\. Bind a Counter"):
        host.open()
    keyed = settings.model_copy(update={"approval_key": KEY, "approval_spent": store.path})
    with Host(settings=keyed, block=["sessions", "ledger"], resources={SessionStore: store}):
        pass


def test_an_approver_without_a_key_is_named_when_a_stored_call_waits(tmp_path, caplog):
    settings = Settings(plugins={"sessions": {"path": tmp_path / "state.db"}})
    later = ApprovalAnswer.pending()
    host = Host(settings=settings, discover=["sessions"], tools=[pay], approver=lambda _: later)
    with host, host.executor(session_id="s") as tools:
        assert tools.dispatch(CALL).status is Status.PENDING
        assert "give approval_key" in caplog.text


def test_a_host_with_another_key_does_not_open_until_it_is_put_back(shared, capsys):
    assert shared.tools(opened(shared)).dispatch(CALL).status is Status.PENDING
    config, key = configured(shared), shared.folder / "inbox" / "inbox.key"
    kept = key.read_bytes()
    key.unlink()
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=r"inbox\.key is not the key .* withdraw`: \w+"
        ):
            opened(shared)
        assert not key.exists()
    key.write_bytes(kept)
    opened(shared)
    key.unlink()
    main(["--config", str(config), "doctor"])
    out = capsys.readouterr().out
    assert str(key) in out
    main(["--config", str(config), "approvals", "list", "--json"])
    ticket = json.loads(capsys.readouterr().out)["ticket"]
    assert main(["--config", str(config), "approvals", "withdraw", ticket]) == 0
    assert shared.tools(opened(shared)).dispatch(CALL).status is Status.PENDING


def test_a_row_that_somebody_altered_keeps_no_host_from_opening(house):
    tools = house.tools(opened(house))
    assert tools.dispatch(CALL).status is Status.PENDING
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        file.execute("UPDATE toolstile_questions SET sealed = ?", (b"garbage",))
    opened(house)
