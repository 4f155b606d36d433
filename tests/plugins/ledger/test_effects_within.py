"""A call's changes are kept with or without those of calls within it."""

import json

from toolstile_plugins.ledger.lease import without_effects

NOTED = {"do": "append", "type": "desk:Note", "items": [{"text": "\ud800 ü"}]}


def of_effect(name):
    return {**NOTED, "effect": name}


def left(changes, *names):
    return json.loads(without_effects(json.dumps(changes), set(names).__contains__))


def test_effects_are_left_out_wherever_they_are():
    changes = [NOTED, of_effect("e2"), of_effect("e1"), of_effect("e2"), NOTED]
    assert left(changes, "e2") == [NOTED, of_effect("e1"), NOTED]
    assert left(changes, "e1") == [NOTED, of_effect("e2"), of_effect("e2"), NOTED]
    assert left(changes, "e1", "e2") == [NOTED, NOTED]


def test_where_none_is_left_out_the_text_is_as_it_was():
    text = json.dumps([NOTED, of_effect("e1")], indent=1)
    assert without_effects(text, {"e2"}.__contains__) is text
