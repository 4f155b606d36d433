"""`--approve` and the setting `mode`, where no terminal is attached."""

import pytest

pytestmark = pytest.mark.slow

NO_TERMINAL = "No one can be asked: no terminal is attached."


@pytest.fixture
def both(calls):
    return calls(("look", {}), ("remove", {"path": "a"}))


@pytest.mark.parametrize(
    ("options", "reading", "removing"),
    [
        ([], NO_TERMINAL, NO_TERMINAL),
        (["--approve", "ask"], NO_TERMINAL, NO_TERMINAL),
        (["--approve", "none"], "approval is set to 'none'", "approval is set to 'none'"),
        (["--approve", "read"], "looked", "Only tools of the category 'read'"),
        (["--approve", "all"], "looked", "removed a x1"),
    ],
)
def test_each_way_to_approve(alone, both, options, reading, removing):
    status, out, err = alone("run", both, *options)
    first, second = out.split("c2 ", 1)
    assert reading in first
    assert removing in second
    assert status == (0 if "removed" in removing else 1)
    assert err == ""


@pytest.mark.long
def test_the_mode_may_be_configured(alone, both, folder):
    (folder / "toolstile.toml").write_text('[plugins.approval]\nmode = "all"', encoding="utf-8")
    assert alone("run", both)[0] == 0
    assert alone("run", both, "--approve", "none")[0] == 1


@pytest.mark.long
def test_another_approver_that_is_configured_is_kept_unless_the_option_is_given(
    alone, both, folder
):
    (folder / "toolstile.toml").write_text('approver = "chat"', encoding="utf-8")
    (folder / "chat.py").write_text(
        "from toolstile_hookspecs import ApprovalAnswer, hookimpl\n\n\n"
        "@hookimpl\ndef toolstile_approve(request):\n    return ApprovalAnswer.deny('says chat')\n",
        encoding="utf-8",
    )
    assert alone("--plugin", "chat.py", "run", both)[1].count("says chat") == 2
    assert alone("--plugin", "chat.py", "run", both, "--approve", "all")[0] == 0


def test_a_word_that_is_no_choice_is_refused(alone, both):
    status, _, err = alone("run", both, "--approve", "some")
    assert status == 2
    assert "all, none, read, ask" in err.replace("'", "")


@pytest.mark.long
def test_call_takes_the_option(alone):
    assert alone("call", "look", "--approve", "read")[1] == "looked\n"


def test_a_deny_is_a_deny_whatever_is_approved(alone, calls):
    path = calls(("remove", {"path": "/"}))
    status, out, _ = alone("run", path, "--approve", "all")
    assert status == 1
    assert "Never that one." in out
