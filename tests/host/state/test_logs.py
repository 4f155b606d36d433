"""A log only grows; what was read of it, and what was forked from it, stays as it was."""

from __future__ import annotations

from hypothesis import given, strategies as st

from toolstile.state.persistent_list import Log

STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["add", "extend", "fork", "read"])), max_size=40
)


def test_a_new_log_is_empty():
    assert len(Log().items()) == 0


def test_items_are_kept_in_the_order_in_which_they_were_added():
    log = Log()
    log.add("a")
    log.extend(["b", "c"])
    log.add("d")
    assert list(log.items()) == ["a", "b", "c", "d"]


def test_what_was_read_does_not_grow():
    log = Log()
    log.add("a")
    read = log.items()
    log.add("b")
    assert list(read) == ["a"]
    assert read.last() == "a"


def test_it_can_begin_with_items():
    log = Log(["a"])
    read = log.items()
    log.add("b")
    assert list(log.items()) == ["a", "b"]
    assert (list(read), read.last()) == (["a"], "a")


@given(STEPS)
def test_logs_and_their_forks_are_independent(steps):
    logs, models = [Log()], [[]]
    read = []
    for number, (which, step) in enumerate(steps):
        log, model = logs[which % len(logs)], models[which % len(models)]
        if step == "add":
            log.add(number)
            model.append(number)
        elif step == "extend":
            log.extend([number, number])
            model += [number, number]
        elif step == "fork":
            logs.append(log.fork())
            models.append(list(model))
        else:
            read.append((log.items(), list(model)))
    for items, model in [*zip((log.items() for log in logs), models, strict=True), *read]:
        assert list(items) == model
        assert len(items) == len(model)
        if model:
            assert items.last() == model[-1] == items.at(len(model) - 1)
