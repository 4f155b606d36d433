"""Effects of which nobody knows are looked at and settled, as with `toolstile ledger`."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.services.ledger import EffectState
from toolstile_plugins.console import Console
from toolstile_plugins.ledger import EffectLedger


@pytest.fixture
def lost(desk, visitor):
    """The effect of a call that was lost, as JSON data."""
    assert not desk.call("order", item="lost tea").success
    (effect,) = visitor.json("/ledger")["effects"]
    return effect


def settle(visitor, effect, answer, **more):
    fields = {"effect": effect["effectId"], "answer": answer, **more}
    return visitor.post(f"/ledger/{effect['hash']}", fields)


def test_unknown_effects_come_first_then_the_newest(desk, visitor):
    for item in ("tea", "lost milk", "bread", "lost salt"):
        desk.call("order", item=item)
    told = visitor.json("/ledger")["effects"]
    assert [effect["state"] for effect in told] == ["unknown", "unknown", "done", "done"]
    assert [effect["value"]["ordered"] for effect in told[2:]] == ["bread", "tea"]
    page = visitor.get("/ledger").text
    places = [page.index(f"/ledger/{effect['hash']}") for effect in told]
    assert places == sorted(places)


def test_an_effect_whose_undo_is_owed_says_so_on_each_page(desk, visitor, lost):
    (entry,) = desk.effects()
    store = desk.tools.resources.get(EffectLedger).store
    claim = entry.claim._replace(params=b'["id",{},null]')
    store.owe(claim, "Its undo failed.", EffectState.UNKNOWN)
    (name,) = {call["name"] for call in visitor.json("/calls")["calls"]}
    for path in ("/ledger", "/ledger?state=owed", f"/ledger/{lost['hash']}", f"/calls/{name}"):
        page = visitor.get(path).text
        assert ">owed<" in page
        assert page.count(">unknown<") == page.count(">unknown</option>")
    assert visitor.json("/ledger?state=undone")["effects"] == []


def test_what_is_overdue_comes_first_and_says_whose_it_is(desk, visitor, lost):
    settings = desk.host.settings("ledger")
    settings.settle_within, settings.owner = 0.001, "the on-call"
    desk.call("order", item="tea")
    first, second = visitor.json("/ledger")["effects"]
    assert (first["hash"], first["overdue"], first["owner"]) == (lost["hash"], True, "the on-call")
    assert "overdue" not in second
    for page in ("/ledger", f"/ledger/{lost['hash']}"):
        text = visitor.get(page).text
        assert "<strong>overdue since " in text
        assert ", by the on-call</strong>" in text


def test_they_are_found_by_tool_and_state(desk, visitor):
    desk.call("order", item="tea")
    desk.call("order", item="lost tea")
    desk.call("sign_up", password="hunter22")

    def found(query):
        return [
            (effect["tool"], effect["state"])
            for effect in visitor.json(f"/ledger?{query}")["effects"]
        ]

    assert found("tool=sign_*") == [("sign_up", "done")]
    assert found("tool=order&state=unknown") == [("order", "unknown")]
    assert found("state=claimed") == []


def test_what_has_happened_is_told_to_the_next_calls(desk, visitor, lost):
    answer = settle(visitor, lost, "happened", message="Found.", value='{"ordered": "one"}')
    assert answer.status_code == 303
    outcome = desk.call("order", item="lost tea")
    assert outcome.text == 'Found.\n{"ordered":"one"}'
    page = visitor.get(f"/ledger/{lost['hash']}").text
    assert "Has it happened?" not in page
    assert "Found." in page


def test_what_has_not_happened_is_called_again(desk, visitor, lost):
    assert settle(visitor, lost, "not_happened").status_code == 303
    (effect,) = visitor.json("/ledger")["effects"]
    assert effect["reason"] == "A person found out that it has not happened."
    assert "Has it happened?" not in visitor.get(f"/ledger/{lost['hash']}").text
    # Its handler runs again, and is lost again.
    assert "Nobody answered" in desk.call("order", item="lost tea").text


def test_a_value_that_does_not_fit_is_refused_and_kept_to_be_corrected(desk, visitor, lost):
    answer = settle(visitor, lost, "happened", message="Found.", value='{"ordered": 1}')
    assert answer.status_code == 409
    assert "The value does not fit: ordered: " in answer.text
    assert "{&#34;ordered&#34;: 1}" in answer.text
    assert 'value="Found."' in answer.text
    assert [effect["state"] for effect in visitor.json("/ledger")["effects"]] == ["unknown"]


def test_only_the_effect_that_was_shown_is_settled(desk, visitor, lost):
    assert settle(visitor, lost, "not_happened").status_code == 303
    desk.call("order", item="lost tea")
    answer = settle(visitor, lost, "happened")
    assert answer.status_code == 409
    assert "Another call has the key now" in answer.text
    assert [effect.state for effect in desk.effects()] == ["unknown"]


def test_what_is_settled_already_says_so(desk, visitor, lost):
    assert settle(visitor, lost, "happened").status_code == 303
    answer = settle(visitor, lost, "not_happened")
    assert answer.status_code == 409
    assert "is done, so there is nothing to resolve" in answer.text


def test_neither_answer_is_no_answer(desk, visitor, lost):
    assert settle(visitor, lost, "maybe").status_code == 400
    assert [effect.state for effect in desk.effects()] == ["unknown"]


def test_programs_settle_as_well(desk, visitor, lost):
    fields = {"effect": lost["effectId"], "answer": "happened", "message": "Found."}
    answer = visitor.post(f"/ledger/{lost['hash']}", fields, accept="application/json")
    told = answer.json()
    assert (told["effect"]["state"], told["effect"]["message"]) == ("done", "Found.")
    again = visitor.post(f"/ledger/{lost['hash']}", fields, accept="application/json")
    assert (again.status_code, "nothing to resolve" in again.json()["fault"]) == (409, True)


def test_an_effect_and_its_call_name_one_another(desk, visitor, lost):
    told = visitor.json(f"/ledger/{lost['hash']}")
    name = told["call"]["name"]
    assert f"/calls/{name}" in visitor.get(f"/ledger/{lost['hash']}").text
    assert f'/ledger/{lost["hash"]}">unknown</a>' in visitor.get(f"/calls/{name}").text
    settle(visitor, lost, "happened")
    # Its state now, which the record of the call cannot say.
    assert f'/ledger/{lost["hash"]}">done</a>' in visitor.get(f"/calls/{name}").text
    assert visitor.json(f"/calls/{name}")["effect"]["state"] == "done"


def test_a_call_without_an_effect_names_none(desk, visitor):
    desk.call("read_file", path="old.txt")
    (row,) = visitor.json("/calls")["calls"]
    assert visitor.json(f"/calls/{row['name']}")["effect"] is None
    assert "/ledger/" not in visitor.get(f"/calls/{row['name']}").text


def test_no_secret_is_shown(desk, visitor):
    desk.call("sign_up", password="hunter22")
    (effect,) = visitor.json("/ledger")["effects"]
    pages = visitor.get("/ledger").text + visitor.get(f"/ledger/{effect['hash']}").text
    assert "hunter22" not in pages
    assert "***" in pages


def test_what_no_longer_fits_its_tool_is_settled_anew(desk, visitor, lost):
    store = desk.tools.resources.get(EffectLedger).store
    (entry,) = desk.effects()
    result = entry.result
    settle(visitor, lost, "happened", value='{"ordered": "one"}')
    (entry,) = desk.effects()
    result = entry.result._replace(value=b"[1]")
    store.finish(entry.claim.key, entry.claim.effect_id, result, None)
    page = visitor.get(f"/ledger/{lost['hash']}").text
    assert "no call can use it" in page
    assert "It has not" not in page
    settle(visitor, lost, "happened", value='{"ordered": "two"}')
    assert desk.call("order", item="lost tea").envelope()["data"] == {"ordered": "two"}


def test_the_version_changes_with_every_state(desk, visitor):
    feed = desk.feed_of("ledger")
    versions = [feed._version()]
    desk.call("order", item="lost tea")
    versions.append(feed._version())
    (effect,) = visitor.json("/ledger")["effects"]
    settle(visitor, effect, "happened")
    versions.append(feed._version())
    assert len(set(versions)) == 3


def test_a_look_makes_no_file(desk, visitor):
    assert visitor.json("/ledger") == {"effects": []}
    assert not (desk.folder / "ledger.db").exists()


def test_a_ledger_that_cannot_be_read_says_so_and_hides_no_call(desk, visitor, lost):
    desk.tools.resources.get(EffectLedger).store.close()
    (desk.folder / "ledger.db").write_text("not a ledger " * 100, encoding="utf-8")
    answer = visitor.get("/ledger")
    assert (answer.status_code, "ledger.db" in answer.text) == (503, True)
    (call,) = visitor.json("/calls")["calls"]
    assert visitor.get(f"/calls/{call['name']}").status_code == 200


def test_what_is_not_in_the_ledger_is_not_found(desk, visitor):
    assert visitor.get("/ledger/x").status_code == 404
    assert settle(visitor, {"effectId": "x", "hash": "x"}, "happened").status_code == 404


def test_without_a_ledger_the_page_says_so(tmp_path):
    from starlette.testclient import TestClient

    from toolstile import Host, Settings

    settings = Settings.model_validate({"block": ["ledger"]})
    with Host(settings=settings) as host:
        console = Console(host, "http://127.0.0.1:8000")
        client = TestClient(console, base_url="http://127.0.0.1:8000")
        client.headers["origin"] = "http://127.0.0.1:8000"
        page = client.post("/login", data={"token": console.url.partition("#")[2]})
        assert "There is no ledger here" in client.get(f"{page.url.path}ledger").text
