"""The runner of the documentation finds its faults."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from executing import configuration, transcripts
from executing.blocks import Execution
from executing.checkers import write_page
from executing.markers import markers
from executing.wheels import Environment
from executing.workplace import Workplace
from sybil import Sybil
from sybil.example import SybilFailure


def evaluated(tmp_path, monkeypatch, page: str) -> Execution:
    """Carries out a page, with the programs of this machine in place of an environment."""
    environment = Environment.__new__(Environment)
    environment.variables = lambda home: {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    environment.with_wheel = lambda command, folder: command
    monkeypatch.setattr(
        Execution,
        "_workplace",
        lambda self, example: example.namespace.setdefault(
            "__workplace__", Workplace(Path.cwd(), environment)
        ),
    )
    execution = Execution()
    file = tmp_path / "page.md"
    file.write_text(page, encoding="utf-8")
    with contextlib.closing(execution):
        document = Sybil(parsers=execution.parsers).parse(file)
        execution.begin(document.namespace)
        try:
            for example in document.examples():
                example.evaluate()
        finally:
            execution.end(document.namespace)
    return execution


@pytest.mark.slow
def test_what_a_page_says_is_done_in_order_and_counted(tmp_path, monkeypatch):
    page = """
<!-- file: notes/a.txt -->
```text
A note.
```

```console
$ cat notes/a.txt
A note.
$ export WORD=again && cd notes   # said once
$ echo "$WORD in $(basename "$PWD")"
again in notes
```

```python
from pathlib import Path

word = Path("notes/a.txt").read_text().split()[1]
```

<!-- invisible-code: python
assert word == "note."
-->

```python
>>> word
'note.'
```

<!-- exit: 3 -->
```console
$ sh -c 'echo "took 12.5 ms at 2026-01-01T10:00:00Z"; exit 3'
took   9 ms at 2025-12-31T23:59:59.001Z
```

```json
{"a": 1}
{"a": 2}
```
"""
    done = evaluated(tmp_path, monkeypatch, page).done
    assert done == {"text": 1, "console": 2, "commands": 4, "python": 3, "json": 1}


@pytest.mark.slow
def test_blocks_in_tabs_are_done_without_their_indentation(tmp_path, monkeypatch):
    page = """
=== "One"

    <!-- file: one.txt -->
    ```text
    A line.
        An indented line.
    ```

    ```python
    def read() -> str:
        with open("one.txt") as file:
            return file.read()
    ```

=== "Two"

    <!-- exit: 3 -->
    ```console
    $ cat one.txt && exit 3
    A line.
        An indented line.
    ```

```python
assert read().splitlines() == ["A line.", "    An indented line."]
```
"""
    done = evaluated(tmp_path, monkeypatch, page).done
    assert done == {"text": 1, "console": 1, "commands": 1, "python": 2}


def test_blocks_in_tabs_are_type_checked_without_their_indentation(tmp_path):
    page = """```python
y = 1
```

=== "A"

    ```python
    if True:
        x = 1
    ```

=== "B"

    ```python
    x = "b"
    ```

Text.
"""
    first, second = (each.read_text("utf-8") for each in write_page(page, tmp_path, "page"))
    assert first.splitlines()[7:9] == ["if True:", "    x = 1"]
    assert second.splitlines()[14] == 'x = "b"'
    assert [text.count("x =") for text in (first, second)] == [1, 1]
    assert [text.splitlines()[1] for text in (first, second)] == ["y = 1"] * 2


def test_what_is_typed_is_typed_at_a_terminal(tmp_path, monkeypatch):
    page = """
<!-- exit: 7 -->
<!-- typed: Ada -->
```console
$ printf 'Who is there? '; read name; test -t 0 && test "$name" = Ada && exit 7
Who is there?
```
"""
    assert evaluated(tmp_path, monkeypatch, page).done["commands"] == 1


@pytest.mark.slow
def test_a_block_that_needs_a_database_reaches_one_under_any_name(tmp_path, monkeypatch):
    page = """
<!-- needs: postgresql -->
```console
$ psql -h db.example.org -U postgres -At -c 'SELECT 40 + 2'
42
```
"""
    assert evaluated(tmp_path, monkeypatch, page).done["commands"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("```console\n$ echo one\ntwo\n```", "The page shows:\ntwo"),
        ("```console\n$ false\n```", r"should end with \[0\]"),
        ("<!-- exit: 2 -->\n```console\n$ true\n```", r"no command ended with \[2\]"),
        ("<!-- instead: x => y -->\n```console\n$ true\n```", "no command of the block is 'x'"),
        ("```console\nearly\n$ true\n```", "before the first command"),
        ("<!-- whatever: 1 -->\n```console\n$ true\n```", "a comment says 'whatever'"),
        ("```bash\ntrue\n```", "blocks of 'bash' are not carried out"),
        ('=== "A"\n\n    ```bash\n    true\n    ```', "blocks of 'bash' are not carried out"),
        ("```\ntrue\n```", "blocks of 'no language' are not carried out"),
        ("```json\n{]\n```", "JSONDecodeError"),
        ("```toml\na = \n```", "TOMLDecodeError"),
        ("```toml\ntimeuot = 1\n```", "are not keys of ours"),
        ("```toml\ntimeout = -1\n```", "timeout"),
        ("```toml\n[plugins.ledger]\nstore = 'stone'\n```", "remove store"),
        ("```toml\n[[policies]]\nkind = 'kindness'\n```", "kindness"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, monkeypatch, block, why):
    with pytest.raises((SybilFailure, ValueError), match=why):
        evaluated(tmp_path, monkeypatch, f"\n{block}\n")


def test_tables_of_another_file_are_only_read(tmp_path, monkeypatch):
    page = "\n<!-- of: texts.toml -->\n```toml\ntimeuot = 1\n```\n"
    assert evaluated(tmp_path, monkeypatch, page).done == {"toml": 1}


def test_a_configuration_is_taken_where_its_files_are(tmp_path):
    text = '[[policies]]\nkind = "read_before_write"\nroot = "wiki"\n'
    assert "wiki" in configuration.fault(text, tmp_path)
    (tmp_path / "wiki").mkdir()
    assert configuration.fault(text, tmp_path) is None


def test_commands_may_go_on_and_need_no_prompt():
    assert transcripts.commands("$ a \\\n  b\nshown\n$ c\n") == [
        transcripts.Command("a \\\n  b", "shown\n"),
        transcripts.Command("c", ""),
    ]
    assert [each.line for each in transcripts.commands("a\nb\n")] == ["a", "b"]


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a ... c", "a b c", True),
        ("a ... c", "a b d", False),
        ("a  1 ms", "a 2.5 s", True),
        ("a", "a b", False),
        ("(a)", "(a)", True),
        ("at 2026-01-01 10:00:00", "at 2027-02-02 11:11:11", True),
    ],
)
def test_what_differs_from_run_to_run_may_differ(shown, printed, fits):
    assert transcripts.fits(shown, printed) is fits


def test_only_comments_just_above_a_block_are_meant():
    text = "<!-- exit: 1 -->\n\n<!-- file: a -->\n<!-- of: b -->\n```toml\n"
    assert markers(text, text.index("```")) == {"file": ["a"], "of": ["b"]}
