"""Phrases are found in many texts as in each of them, at the time of the first."""

from __future__ import annotations

from hypothesis import given, strategies as st

from toolstile_plugins.rules.provenance import RememberedValues, ValueIndex
from toolstile_plugins.rules.values import PhraseIndex, index_of, links, plain, words

WORDS = st.lists(st.sampled_from(["a", "bob", "carl", "dora"]), min_size=1, max_size=12)


def stands_in(phrase: list[str], text: list[str]) -> bool:
    return any(text[at : at + len(phrase)] == phrase for at in range(len(text)))


@given(st.lists(st.tuples(WORDS, st.booleans())), st.lists(WORDS, min_size=1))
def test_the_index_says_what_looking_at_every_text_would(texts, wanted):
    index = PhraseIndex()
    for time, (text, is_asked) in enumerate(texts):
        if is_asked:  # so that a length is known before all texts are there
            index.first(" ".join(wanted[0]))
        index.add(time, " ".join(text))
    for phrase in wanted:
        here = [time for time, (text, _) in enumerate(texts) if stands_in(phrase, text)]
        if len(phrase) > 8:
            here = [time for time, (text, _) in enumerate(texts) if text == phrase]
        assert index.first(" ".join(phrase)) == min(here, default=None)


NAMES = st.sampled_from(["bob", "carl", "dora"])
FIELDS = {"given": "arguments", "shown": "trusted", "approved": "approved"}
ITEMS = st.tuples(st.sampled_from(["given", "shown", "approved", "failed"]), NAMES)


@given(st.lists(st.one_of(ITEMS, st.integers(0, 5)), max_size=20))
def test_a_value_is_shown_as_a_model_says_also_after_calls_were_rolled_back(steps):
    index = ValueIndex("p")
    items: list[RememberedValues] = []
    failed: list[str] = []
    history: list[tuple[str, str]] = []
    for step in steps:
        if isinstance(step, int):
            kept = max(0, len(items) - step)
            del items[kept:]
            history = with_items(history, kept)
        elif step[0] == "failed":
            failed.append(step[1])
            history.append(step)
        else:
            before = index.new(failed, len(items), trusted=False) if step[0] == "shown" else ()
            items.append(item(step, len(items), before))
            history.append(step)
        index.follow(tuple(items))
        for name in ("bob", "carl", "dora"):
            if index.is_shown(name, len(items)):
                assert is_shown(name, history)
            elif len(index._items) == len(items):
                assert not is_shown(name, history)
            assert index.is_approved(name, len(items)) == (("approved", name) in history)


def item(step: tuple[str, str], at: int, before: tuple[str, ...]) -> RememberedValues:
    kind, name = step
    fields = {"arguments": before, FIELDS[kind]: (name,)}
    return RememberedValues("p", at, **fields)


def with_items(history: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """Return the history with so many items, and with all failures."""
    kept: list[tuple[str, str]] = []
    for step in history:
        count -= step[0] != "failed"
        if step[0] == "failed" or count >= 0:
            kept.append(step)
    return kept


def is_shown(name: str, history: list[tuple[str, str]]) -> bool:
    first = next((kind for kind, own in history if own == name and kind != "approved"), None)
    return first == "shown"


def test_a_phrase_is_found_without_what_is_around_it():
    index = index_of(('He said: "Meet Ann Lee\'s team (soon), for $1,250.00!"',))
    found = ["meet ann lee", "ann lee's", "soon", "=1250", "for", "meet ann lee's team"]
    assert [phrase for phrase in found if index.first(phrase) is None] == []
    assert [phrase for phrase in ("lee team", "nn", "=250", "1") if index.first(phrase)] == []


def test_numbers_with_zeros_in_front_are_no_numbers():
    assert index_of(("Room 0042.",)).first("=42") is None
    assert index_of(("Room 0042.",)).first("0042") is not None


def test_words_have_four_letters():
    assert words(plain("Tea with Zoé's friends, 2nd floor")) == ["with", "friends", "floor"]


def test_a_host_in_numbers_is_a_link_where_more_follows_and_a_version_is_none():
    assert links("See 10.0.0.1/plan, or 10.0.0.1:8080.") == ["10.0.0.1/plan", "10.0.0.1:8080"]
    assert links("Use 1.2.3.4, or 1.2.3.4: it is v1.2.3/4.") == []


def test_links_are_searched_in_linear_time():
    long = 200_000
    for text in ("a" * long, "a." * long, "a@" * long, "a:" * long, "a-" * long, "&#" * 20_000):
        assert len(links(text)) <= 1
