"""Locks of exclusive resources: order, trees, circles of waiters, abandoned holders."""

import gc
import time

import pytest

from toolstile.resources.exclusive import Claim, lock_of
from toolstile_hookspecs import ResourceBusyError


class Call:
    def __init__(self, name, parent=None):
        self.name, self.parent = name, parent
        self.root_id = object() if parent is None else parent.root_id

    def __str__(self):
        return self.name


class Disk:
    pass


class Net:
    pass


def request(lock, call):
    return Claim(lock, call).request()


def test_a_resource_has_one_lock():
    disk = Disk()
    assert lock_of(disk) is lock_of(disk)
    assert lock_of(disk) is not lock_of(Disk())


@pytest.mark.slow
def test_a_held_lock_outlives_everyone_who_knows_of_it():
    disk = Disk()
    request(lock_of(disk), Call("a"))
    gc.collect()
    assert not request(lock_of(disk), Call("b")).granted


def test_grants_first_come_first_served():
    lock = lock_of(Disk())
    order = []
    tickets = []
    for name in "abcd":
        ticket = request(lock, Call(name))
        ticket.on_grant(lambda name=name: order.append(name))
        tickets.append(ticket)
    assert order == ["a"]
    for ticket in tickets:
        assert ticket.granted
        ticket.claim.leave()
    assert order == ["a", "b", "c", "d"]


def test_who_withdraws_is_skipped():
    lock = lock_of(Disk())
    first, second, third = (request(lock, Call(name)) for name in "abc")
    second.claim.leave()
    first.claim.leave()
    assert third.granted
    assert not second.claim.held


def test_a_callback_on_a_settled_ticket_is_called_at_once():
    told = []
    ticket = request(lock_of(Disk()), Call("a"))
    ticket.on_grant(lambda: told.append(1))
    assert told == [1]


def test_withdrawing_twice_does_nothing():
    lock = lock_of(Disk())
    first, second = request(lock, Call("a")), request(lock, Call("b"))
    first.claim.leave()
    first.claim.leave()
    assert second.granted


def test_is_reentrant_for_the_call_and_those_it_makes():
    lock = lock_of(Disk())
    root = Call("root")
    child = Call("child", root)
    assert request(lock, root).granted
    assert request(lock, root).granted
    assert request(lock, Call("grandchild", child)).granted


def test_calls_side_by_side_in_a_tree_take_turns():
    lock = lock_of(Disk())
    root = Call("root")
    first, second = Claim(lock, Call("first", root)), Claim(lock, Call("second", root))
    other = request(lock, Call("other"))
    other.claim.leave()
    assert first.request().granted
    waits = second.request()
    outside = request(lock, Call("outside"))
    assert not waits.granted
    first.leave(Claim(lock, root))
    assert waits.granted
    assert not outside.granted


def test_a_parent_waits_for_the_nested_call_that_uses_it():
    lock = lock_of(Disk())
    root = Call("root")
    child, parent = Claim(lock, Call("child", root)), Claim(lock, root)
    assert child.request().granted
    waits = parent.request()
    assert not waits.granted
    child.leave(parent)
    assert waits.granted


def test_the_one_who_would_close_a_circle_of_waiters_fails_at_once():
    disk, net = lock_of(Disk()), lock_of(Net())
    a, b = Call("a"), Call("b")
    request(disk, a)
    holds = request(net, b)
    waits = request(net, a)
    with pytest.raises(
        ResourceBusyError,
        match=r"Disk is held by a, which waits for this call to release Net. Retry",
    ):
        request(disk, b)
    assert not waits.granted
    holds.claim.leave()
    assert waits.granted


def test_a_circle_of_three_is_seen():
    locks = [lock_of(kind()) for kind in (Disk, Net, Disk)]
    calls = [Call(name) for name in "abc"]
    for lock, call in zip(locks, calls, strict=True):
        request(lock, call)
    request(locks[1], calls[0])
    request(locks[2], calls[1])
    with pytest.raises(ResourceBusyError):
        request(locks[0], calls[2])


def test_a_circle_through_nested_calls_of_two_trees_is_seen():
    disk, net = lock_of(Disk()), lock_of(Net())
    a, b = Call("a"), Call("b")
    request(disk, a)
    request(net, Call("nested", b))
    request(net, Call("nested", a))
    with pytest.raises(ResourceBusyError):
        request(disk, Call("another", b))


def test_a_circle_within_one_tree_is_seen():
    disk, net = lock_of(Disk()), lock_of(Net())
    root = Call("root")
    first, second = Call("first", root), Call("second", root)
    request(disk, first)
    request(net, second)
    request(net, first)
    with pytest.raises(ResourceBusyError):
        request(disk, second)


def test_a_circle_that_a_grant_closes_is_seen():
    disk, net = lock_of(Disk()), lock_of(Net())
    b, c = Call("b"), Call("c")
    holds = request(disk, Call("a"))
    request(net, c)
    assert not request(disk, b).granted
    assert not request(disk, c).granted
    waits = request(net, b)
    assert (waits.granted, waits.error) == (False, None)
    holds.claim.leave()
    assert "Net is held by c, which waits for this call" in str(waits.error)


def test_waiting_without_a_circle_is_no_error():
    disk, net = lock_of(Disk()), lock_of(Net())
    a, b, c = Call("a"), Call("b"), Call("c")
    request(disk, a)
    request(net, a)
    assert not request(disk, b).granted
    assert not request(disk, c).granted
    assert not request(net, b).granted
    assert not request(net, c).granted


def test_who_must_not_wait_is_refused():
    lock = lock_of(Disk())
    request(lock, Call("a"))
    with pytest.raises(ResourceBusyError, match="Disk is held by a, and this call may not wait"):
        Claim(lock, Call("b")).request(fail_fast=True)


def test_while_an_abandoned_call_holds_it_all_are_told():
    lock = lock_of(Disk())
    holder = Claim(lock, Call("stuck"))
    holder.request()
    told = []
    waits = request(lock, Call("b"))
    waits.on_grant(lambda: told.append(waits.error))
    holder.abandon()
    assert "still held by an abandoned call of stuck" in str(told[0])
    with pytest.raises(ResourceBusyError, match="still held by an abandoned call of stuck"):
        request(lock, Call("c"))
    holder.leave()
    assert request(lock, Call("c")).granted


def test_a_call_that_was_abandoned_and_ends_soon_is_waited_for():
    lock = lock_of(Disk())
    holder = Claim(lock, Call("cancelled"))
    holder.request()
    before = request(lock, Call("b"))
    holder.abandon(patience=60)
    after = request(lock, Call("c"))
    assert (before.granted, after.granted) == (False, False)
    holder.leave()
    assert before.granted
    before.claim.leave()
    assert after.granted


def test_nobody_begins_to_wait_for_an_abandoned_call_that_has_not_ended_in_time():
    lock = lock_of(Disk())
    holder = Claim(lock, Call("stuck"))
    holder.request()
    holder.abandon(patience=0.01)
    time.sleep(0.02)
    with pytest.raises(ResourceBusyError, match="still held by an abandoned call of stuck"):
        request(lock, Call("b"))


def test_a_claim_that_is_over_gets_nothing_more():
    lock = lock_of(Disk())
    holder, claim = Claim(lock, Call("a")), Claim(lock, Call("b"))
    holder.request()
    waits = claim.request()
    claim.leave()
    assert waits.error is not None
    with pytest.raises(ResourceBusyError, match="b has ended"):
        claim.request()
    holder.leave()
    assert lock.claims == []


def test_what_was_put_off_runs_when_nothing_stands_on_it(caplog):
    lock = lock_of(Disk())
    root = Call("root")
    parent, child = Claim(lock, root), Claim(lock, Call("child", root))
    parent.request()
    child.request()
    done = []

    def end():
        done.append(1)
        parent.leave()
        raise ValueError("told")

    parent.when_innermost(end)
    assert done == []
    child.leave()
    assert done == [1]
    assert "Rolling back Disk after an abandoned call failed" in caplog.text
    assert request(lock, Call("b")).granted
