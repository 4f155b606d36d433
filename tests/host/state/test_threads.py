import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from toolstile_hookspecs.errors import CallClosed, ConflictError
from toolstile_hookspecs.sessions import Append


@dataclass(frozen=True)
class Count:
    value: int


@dataclass(frozen=True)
class Tick:
    pass


def test_calls_that_count_in_threads_lose_nothing(session):
    """The host's way: work in parallel, take turns to commit, run again after a conflict."""
    turn = threading.Lock()

    def increment(branch):
        latest = branch[Count].latest()
        branch[Count].append(Count(latest.value + 1 if latest else 1))

    def call(number):
        branch = session.fork()
        increment(branch)
        if number % 3 == 0:
            branch.rollback()
            return
        with turn:
            try:
                branch.validate()
            except ConflictError:
                branch.refork()
                increment(branch)
                branch.validate()
            branch.commit()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(3000)))
    assert [each.value for each in session[Count].all()] == list(range(1, 2001))


def test_a_branch_may_be_used_by_the_threads_of_its_handler(session):
    session[Count].register(Tick, lambda items, event: Append([Count(len(items))]))
    branch = session.fork()

    def work(number):
        nested = branch.fork()
        nested.dispatch(Tick())
        branch.dispatch(Tick())
        branch[int].append(number)
        nested.commit()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(300)))
    branch.validate()
    branch.commit()
    assert [each.value for each in session[Count].all()] == list(range(600))
    assert sorted(session[int].all()) == list(range(300))


def test_closing_does_not_wait_for_a_reducer_that_hangs(session):
    entered, release = threading.Event(), threading.Event()

    def hang(items, event):
        entered.set()
        release.wait(10)
        return Append([Count(1)])

    session[Count].register(Tick, hang)
    branch = session.fork()
    late = []

    def handler():
        branch.dispatch(Tick())
        try:
            branch[Count].append(Count(2))
        except CallClosed as error:
            late.append(str(error))

    thread = threading.Thread(target=handler)
    thread.start()
    assert entered.wait(10)
    branch.close("timed out")
    session[Count].append(Count(0))
    release.set()
    thread.join(10)
    assert late == ["timed out"]
    assert session[Count].all() == [Count(0)]
