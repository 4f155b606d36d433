"""`toolstile run --transaction` keeps the changes of all calls of a file, or of none."""

import json
import re

import pytest

PLUGIN = '''
from toolstile_hookspecs import (
    MarkdownSection, PolicyDecision, ToolContext, hookimpl, tool,
)


@tool(contained=True)
def put(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file."""
    context.filesystem.write_bytes(path, text.encode())
    return f"wrote {path}"


@tool(contained=True)
def get(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    return context.filesystem.read_bytes(path).decode()


class Late:
    """Denies `denied.txt` from the second question on."""

    name = "late"
    asked = 0

    def check(self, tool, params, *, context):
        if getattr(params, "path", "") == "denied.txt" and tool.name == "put":
            Late.asked += 1
            if Late.asked > 1:
                return PolicyDecision.deny("The file is closed by now.")
        return PolicyDecision.allow()

    def on_result(self, tool, params, result, *, context):
        return None


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="files", title="Files", tools=[put, get], policies=[Late()])]
'''


@pytest.fixture
def run(toolstile, folder, calls):
    (folder / "files.py").write_text(PLUGIN, encoding="utf-8")
    (folder / "work").mkdir()

    def run(*options, made):
        path = calls(*made)
        return toolstile(
            "--plugin", "files.py", "run", path, "--workspace", "work", "--transaction", *options
        )

    return run


PUTS = (
    ("put", {"path": "a.txt", "text": "one\n"}),
    ("put", {"path": "b.txt", "text": "two\n"}),
    ("get", {"path": "a.txt"}),
)
DENIED = (*PUTS, ("put", {"path": "denied.txt", "text": "x\n"}))


def kept(folder):
    return sorted(each.name for each in (folder / "work").iterdir() if each.suffix == ".txt")


@pytest.mark.parametrize("parallel", [False, True])
def test_all_calls_are_kept_together(run, folder, parallel):
    made = PUTS[:2] if parallel else PUTS
    status, out, err = run(*["--parallel"] * parallel, made=made)
    assert (status, err) == (0, "")
    assert f"{len(made)} succeeded; kept together, as one transaction" in out
    assert kept(folder) == ["a.txt", "b.txt"]


def test_a_dry_run_prints_the_whole_diff_and_keeps_nothing(run, folder):
    status, out, err = run("--dry-run", made=PUTS)
    assert (status, err) == (0, "")
    _, whole = out.split("Together they would change:")
    assert [line.strip() for line in whole.splitlines() if line.strip()[:1] in {"+", "-"}] == [
        "--- /dev/null",
        "+++ b/a.txt",
        "+one",
        "--- /dev/null",
        "+++ b/b.txt",
        "+two",
    ]
    assert "3 succeeded; a dry run, nothing of it is kept" in out
    assert kept(folder) == []


@pytest.mark.parametrize("parallel", [False, True])
def test_if_its_end_is_denied_nothing_is_kept_and_the_reason_is_shown(run, folder, parallel):
    status, out, _ = run(*["--parallel"] * parallel, made=[*DENIED[:2], DENIED[3]])
    assert status == 1
    assert re.search(r"put \(c3\) is not allowed any more: .*The file is closed by now\.", out)
    assert "3 succeeded; none of them is kept" in out
    assert kept(folder) == []


def test_a_dry_run_shows_that_its_end_would_be_denied(run):
    status, out, _ = run("--dry-run", made=DENIED)
    assert status == 1
    assert "The file is closed by now." in out


def test_a_failed_call_leaves_the_others_and_a_tool_that_is_not_contained_is_denied(run, folder):
    made = [PUTS[0], ("get", {"path": "none.txt"}), ("say", {"text": "out"})]
    status, out, _ = run(made=made)
    assert status == 1
    assert "say is not contained: its effects could not be rolled back" in out
    assert kept(folder) == ["a.txt"]


def test_json_ends_with_the_end_of_the_transaction(run, folder):
    _, out, _ = run("--json", made=PUTS)
    *calls, end = [json.loads(line) for line in out.splitlines()]
    assert [each["status"] for each in calls] == ["succeeded"] * 3
    assert (end["status"], set(end)) == ("committed", {"transaction", "status"})
    status, out, _ = run("--json", made=DENIED)
    end = json.loads(out.splitlines()[-1])
    assert (status, end["status"]) == (1, "rolled_back")
    assert "not allowed any more" in end["reason"]


def test_json_of_a_dry_run_has_the_whole_diff(run, folder):
    _, out, _ = run("--json", "--dry-run", made=PUTS)
    end = json.loads(out.splitlines()[-1])
    assert end["status"] == "rolled_back"
    assert "+one" in end["diff"]
    assert "+two" in end["diff"]


def test_the_calls_of_several_turns_are_one_transaction(run, toolstile, folder):
    chat = [
        {"role": "user", "content": "Write a."},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "put", "arguments": json.dumps(PUTS[0][1])},
                }
            ],
        },
    ]
    (folder / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
    options = ("--workspace", "work", "--transaction")
    status, _, err = toolstile("--plugin", "files.py", "run", "chat.json", *options)
    assert (status, err) == (0, "")
    assert kept(folder) == ["a.txt"]
