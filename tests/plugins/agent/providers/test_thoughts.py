"""Thoughts before an answer are told from it, however the stream cuts them."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.agents.provider import Delta, ThoughtDelta
from toolstile_plugins.agent.output import (
    InlineThoughts,
    typed_part,
    without_thoughts,
)

TEXTS = {
    "none": ("It is < 3.", "", "It is < 3."),
    "think": ("<think>\nHm.\n</think>\n\nYes.", "\nHm.\n", "Yes."),
    "space before": (" \n<think>Hm.</think>Yes.", "Hm.", "Yes."),
    "thinking": ("<thinking>a < b </think> c</thinking>Yes.", "a < b </think> c", "Yes."),
    "later": ("Yes. <think>no</think>", "", "Yes. <think>no</think>"),
    "no end": ("<think>Hm", "Hm", ""),
    "nothing else": ("<think>Hm</think>\n", "Hm", ""),
    "almost": ("<thin", "", "<thin"),
    "two": ("<think>a</think><think>b</think>c", "ab", "c"),
    "capitals": ("<THINK>Hm.</Think>Yes.", "Hm.", "Yes."),
    "an attribute": ('<think effort="high">Hm.</think >Yes.', "Hm.", "Yes."),
    "a prefix": ("<seed:think>Hm.</seed:think>Yes.", "Hm.", "Yes."),
    "triangles": ("◁think▷a < b◁/think▷Yes.", "a < b", "Yes."),
    "brackets": ("[THINK]a [1] [/b] <c>[/THINK]\nYes.", "a [1] [/b] <c>", "Yes."),
    "brackets without an end": ("[THINK]Hm", "Hm", ""),
    "a list": ("[1, 2]", "", "[1, 2]"),
    "a word in brackets": ("[thinking] aloud", "", "[thinking] aloud"),
    "channels": (
        "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Yes.",
        *("Hm.", "Yes."),
    ),
    "channels by turns": (
        "<|channel|>analysis a<|end|>\n<|channel|>analysis b<|channel|>final Yes.",
        *("ab", "Yes."),
    ),
    "channels without a message": ("<|channel|>analysis Hm.<|channel|>final Yes.", "Hm.", "Yes."),
    "a channel of JSON": ("<|channel|>final <|constrain|>json<|message|>Yes.", "", "Yes."),
    "the final channel alone": ("<|channel|>final<|message|>Yes.", "", "Yes."),
    "a channel without an end": ("<|channel|>analysis<|message|>Hm", "Hm", ""),
    "another channel": ("<|channel|>x<|message|>Yes.", "", "<|channel|>x<|message|>Yes."),
    "blank": ("  ", "", "  "),
    "empty": ("", "", ""),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("name", TEXTS)
def test_a_stream_is_split_as_its_text_is(name: str, size: int) -> None:
    whole, thoughts, text = TEXTS[name]
    reader, heard = InlineThoughts(), list[Delta]()
    for start in range(0, len(whole), size):
        heard += reader.split(whole[start : start + size])
    heard += reader.rest()
    assert "".join(each for each in heard if isinstance(each, str)) == text
    assert "".join(each.text for each in heard if isinstance(each, ThoughtDelta)) == thoughts
    assert without_thoughts(whole) == text


def test_a_typed_answer_is_read_after_all_thoughts(subtests: pytest.Subtests) -> None:
    for text in [
        '{"n": 1}',
        '<think>{"n": 2}</think>{"n": 1}',
        'It is {"n": 2}?</think>\n{"n": 1}',
        '<think>a</think> <think>b</think> {"n": 1}',
        '<reasoning>\nIt is [2].\n</reasoning>\n{"n": 1}',
        '<THINK>{"n": 2}</THINK>{"n": 1}',
        '[THINK]{"n": 2}?[/THINK]{"n": 1}',
        'It is {"n": 2}?[/THINK]{"n": 1}',
        '[THINK]a[/THINK]<think>b</think>{"n": 1}',
        '<|channel|>analysis<|message|>[2]<|end|><|channel|>final<|message|>{"n": 1}<|return|>',
        'It is {"n": 2}?<|end|><|start|>assistant<|channel|>final<|message|>{"n": 1}',
    ]:
        with subtests.test(text=text):
            assert typed_part(text) == '{"n": 1}'


def test_a_typed_answer_may_speak_of_thoughts() -> None:
    text = '{"text": "<think>a</think>b</think>"}'
    assert typed_part(text) == text
