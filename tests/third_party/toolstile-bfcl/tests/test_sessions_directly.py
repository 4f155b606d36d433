"""The recorded sessions come out as expected when the tools are called one by one."""

from toolstile_bfcl.json_form import state_form
from toolstile_bfcl.store import BackendStore


def test_every_result_and_every_final_state_is_the_expected_one(sessions, tools, run):
    for session in sessions:
        suites = session["suites"]
        store, by_name = BackendStore(suites, session["initial_config"]), tools(*suites)
        for turn, expected in zip(session["turns"], session["expected"]["results"], strict=True):
            for call, value in zip(turn["calls"], expected, strict=True):
                branch = store.branch(None, None)
                result = run(by_name[call["name"]], call["arguments"], branch)
                assert result.success, call
                assert result.value == value, call
                branch.prepare()
                branch.commit()
        final = {suite: state_form(store.lend(suite)) for suite in suites}
        assert final == session["expected"]["final_state"]
