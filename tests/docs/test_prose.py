"""The first pages, the help and the commonest messages have no phrase that a reader must decode."""

from __future__ import annotations

import prose
import pytest


@pytest.mark.parametrize("part", prose.CLEAN)
def test_no_phrase_of_the_list_is_left(part):
    assert not [str(hit) for hit in prose.hits(part)]


MOST = {"source": 200, "docs": 37}
"""The phrases that are left in the source and in the pages; a change may only lower them."""


@pytest.mark.parametrize("part", MOST)
def test_phrases_of_the_list_become_fewer(part):
    assert len(prose.hits(part)) <= MOST[part]


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("Show what it changed.", ["what"]),
        ("Where there\nis none, nobody is told of it.", ["where there", "nobody", "told"]),
        ("One that goes on is one whom, or of whom.", ["one that", "goes on"]),
        ("What does it cost? See the page.", []),
        ("It is no longer there, and somewhat late.", []),
        ("Run `what`, see [it](what.md).<!-- what -->", []),
        ("```console\n$ what\nwhat nobody knows\n```\n\nNobody.", ["nobody"]),
    ],
)
def test_phrases_are_found_but_for_code_and_questions(text, phrases):
    found = [" ".join(each.group().lower().split()) for each in prose.phrases_in(text)]
    assert found == phrases


def test_the_place_of_a_hit_is_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "PAGES", ("page.md",))
    (tmp_path / "page.md").write_text("```text\nwhat\n```\n\nSay\nwhat it is.\n", encoding="utf-8")
    assert [str(hit) for hit in prose.hits("pages")] == ["page.md:6: what"]


def test_a_listed_message_that_no_file_has_is_an_error(tmp_path, monkeypatch):
    listed = tmp_path / "messages.txt"
    listed.write_text("# A comment.\n{} waits for a {}.\n", encoding="utf-8")
    monkeypatch.setattr(prose, "MESSAGES", listed)
    monkeypatch.setattr(prose, "source_templates", lambda: [("{} waits for a {}.", "a.py")])
    assert not prose.hits("messages")
    listed.write_text("{} waits for what?\n{} waits for a bus.\n", encoding="utf-8")
    with pytest.raises(LookupError, match="waits for a bus"):
        prose.hits("messages")
