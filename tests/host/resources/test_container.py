"""Open resources: building, scopes, circles, closing."""

import asyncio
import threading

import pytest

from toolstile import Host, ToolCall
from toolstile.resources.bindings import ResourceRegistry
from toolstile_hookspecs import (
    Binding,
    CircularDependencyError,
    Decider,
    ResourceError,
    Scope,
    ToolContext,
    UnboundResourceError,
    tool,
)


class A:
    pass


class B:
    pass


class C:
    pass


class Logged:
    """Writes its construction and closing to a log."""

    def __init__(self, log, name, fails=None):
        self.log, self.name, self.fails = log, name, fails
        log.append(f"made {name}")

    def post_construct(self):
        self.log.append(f"finished {self.name}")

    def close(self):
        self.log.append(f"closed {self.name}")
        if self.fails:
            raise self.fails


def opened(*bindings):
    return ResourceRegistry.of(*bindings).open()


def test_builds_nothing_until_asked_and_then_along_the_dependencies():
    log = []
    resources = opened(
        Binding(A, lambda r: (r.get(B), Logged(log, "A"))[1]),
        Binding(B, lambda r: Logged(log, "B")),
        Binding(C, lambda r: Logged(log, "C")),
    )
    assert log == []
    resources.get(A)
    assert log == ["made B", "finished B", "made A", "finished A"]


def test_a_singleton_is_made_once():
    resources = opened(Binding(A, lambda r: A()))
    assert resources.get(A) is resources.get(A)


def test_a_prototype_is_made_at_each_access():
    resources = opened(Binding(A, lambda r: A(), Scope.PROTOTYPE))
    assert resources.get(A) is not resources.get(A)


def test_a_prototype_is_closed_with_the_scope_it_was_asked_in():
    log = []
    resources = opened(Binding(A, lambda r: Logged(log, "A"), Scope.PROTOTYPE))
    with resources.tool_scope() as scope:
        scope.get(A)
    assert log[-1] == "closed A"


def test_something_unbound_is_an_error_that_names_what_is_bound_and_the_nearest():
    class Database:
        pass

    class Databse:
        pass

    resources = opened(Binding(Database, lambda r: Database()), Binding(A, lambda r: A()))
    with pytest.raises(UnboundResourceError) as caught:
        resources.get(Databse)
    assert str(caught.value) == (
        "No resource is bound for Databse. Did you mean Database? Bound are: A, Database. "
        "Bind it, or ask with get(Databse, default)."
    )


def test_who_asks_by_a_name_is_told_to_ask_by_the_type():
    told = "for the text 'A': resources are asked for by their type. Bound are: A."
    with pytest.raises(UnboundResourceError, match=told):
        opened(Binding(A, lambda r: A())).get("A")


def test_with_nothing_bound_the_error_says_so():
    with pytest.raises(UnboundResourceError) as caught:
        opened().get(A)
    assert str(caught.value) == (
        "No resource is bound for A; none is bound at all. Bind it, or ask with get(A, default)."
    )


def test_a_default_is_for_what_is_unbound():
    resources = opened(Binding(A, lambda r: A()))
    assert resources.get(B, None) is None
    assert isinstance(resources.get(A, None), A)
    assert A in resources
    assert B not in resources


def test_a_default_does_not_hide_a_failure():
    resources = opened(Binding(A, lambda r: r.get(B)))
    with pytest.raises(UnboundResourceError):
        resources.get(A, None)


def test_a_circle_is_named():
    resources = opened(
        Binding(A, lambda r: r.get(B)),
        Binding(B, lambda r: r.get(C)),
        Binding(C, lambda r: r.get(A)),
    )
    with pytest.raises(CircularDependencyError, match="A -> B -> C -> A"):
        resources.get(A)
    with pytest.raises(CircularDependencyError, match="B -> C -> A -> B"):
        resources.get(B)


@pytest.mark.parametrize("scope", [Scope.PROTOTYPE, Scope.TOOL_CALL])
def test_a_circle_is_named_in_every_scope(scope):
    resources = opened(Binding(A, lambda r: r.get(B), scope), Binding(B, lambda r: r.get(A), scope))
    scope = resources.tool_scope()
    with scope, pytest.raises(CircularDependencyError, match="A -> B -> A"):
        scope.get(A)


def test_a_circle_past_the_resolver_is_named():
    resources = opened(
        Binding(A, lambda r: resources.get(B)), Binding(B, lambda r: resources.get(A))
    )
    with pytest.raises(CircularDependencyError, match="A -> B -> A"):
        resources.get(A)


def test_a_circle_across_threads_is_an_error_and_no_deadlock(start):
    barrier = threading.Barrier(2, timeout=30)
    met = set()

    def provide(other):
        def provider(r):
            if other not in met:
                met.add(other)
                barrier.wait()
            return r.get(other)

        return provider

    resources = opened(Binding(A, provide(B)), Binding(B, provide(A)))
    threads = [start(lambda: resources.get(A)), start(lambda: resources.get(B))]
    assert all(isinstance(each.exception(30), CircularDependencyError) for each in threads)


def test_a_provider_may_ask_from_threads_of_its_own(start):
    resources = opened(
        Binding(A, lambda r: start(lambda: r.get(B)).result(30)), Binding(B, lambda r: B())
    )
    assert isinstance(resources.get(A), B)


def test_a_singleton_is_made_once_for_many_threads(start):
    made = []
    barrier = threading.Barrier(8, timeout=30)
    release = threading.Event()

    def provider(r):
        release.wait(30)
        made.append(1)
        return A()

    resources = opened(Binding(A, provider))

    def ask():
        barrier.wait()
        return resources.get(A)

    asking = [start(ask) for _ in range(8)]
    release.set()
    assert len({id(each.result(30)) for each in asking}) == 1
    assert made == [1]


def test_while_one_is_made_slowly_others_can_be_had(start):
    began, release = threading.Event(), threading.Event()

    def slow(r):
        began.set()
        release.wait(30)
        return A()

    resources = opened(Binding(A, slow), Binding(B, lambda r: B()), Binding(C, lambda r: C()))
    resources.get(B)
    making = start(lambda: resources.get(A))
    assert began.wait(30)
    assert isinstance(resources.get(B), B)
    assert isinstance(resources.get(C), C)
    release.set()
    assert isinstance(making.result(30), A)


def test_the_error_of_a_provider_leaves_as_it_is_and_the_next_access_tries_again():
    answers = [ValueError("no"), A()]

    def provider(r):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    resources = opened(Binding(A, provider), Binding(B, lambda r: r.get(A)))
    with pytest.raises(ValueError, match=r"^no$"):
        resources.get(B)
    assert isinstance(resources.get(B), A)


def test_a_thread_that_waited_for_a_failed_construction_makes_it_itself(start):
    began, release = threading.Event(), threading.Event()
    tries = []

    def provider(r):
        tries.append(1)
        if len(tries) == 1:
            began.set()
            release.wait(30)
            raise ValueError
        return A()

    resources = opened(Binding(A, provider))
    first = start(lambda: resources.get(A))
    assert began.wait(30)
    second = start(lambda: resources.get(A))
    release.set()
    assert isinstance(first.exception(30), ValueError)
    assert isinstance(second.result(30), A)


def test_what_cannot_finish_its_construction_is_closed_and_not_kept():
    log = []

    class Broken(Logged):
        def post_construct(self):
            raise ValueError("half built")

    resources = opened(Binding(A, lambda r: Broken(log, "A", OSError("stuck"))))
    with pytest.raises(ValueError, match="half built") as caught:
        resources.get(A)
    assert log == ["made A", "closed A"]
    assert "stuck" in caught.value.__notes__[0]
    resources.close()
    assert log == ["made A", "closed A"]


class AwaitedFirst(Logged):
    async def post_construct(self):
        raise AssertionError


async def connect():
    raise AssertionError


@pytest.mark.parametrize(
    ("provider", "what"),
    [
        (lambda r: connect(), r"The provider of A"),
        (lambda r: AwaitedFirst([], "A"), r"post_construct\(\) of AwaitedFirst"),
    ],
)
def test_what_would_have_to_be_awaited_is_refused_with_the_remedy(provider, what):
    resources = opened(Binding(A, provider))
    with pytest.raises(ResourceError, match=f"{what} is async.*an async toolstile_lifespan"):
        resources.get(A)
    resources.close()


class Closing:
    """Notes the loop on which it is closed."""

    def __init__(self, fails=False):
        self.closed_on = []
        self.fails = fails

    async def note(self):
        await asyncio.sleep(0)
        self.closed_on.append(asyncio.get_running_loop())
        if self.fails:
            raise OSError("gone")


class Aclosed(Closing):
    aclose = Closing.note


class ClosedAsync(Closing):
    close = Closing.note


@pytest.mark.parametrize("kind", [Aclosed, ClosedAsync])
@pytest.mark.parametrize("scope", list(Scope))
def test_what_has_to_be_awaited_to_close_is_awaited(kind, scope):
    log, made = [], []

    def make(_):
        made.append(kind())
        return made[-1]

    resources = opened(Binding(B, lambda r: Logged(log, "B")), Binding(kind, make, scope))
    resources.get(B)
    with resources.tool_scope() as call:
        call.get(kind)
        assert made[0].closed_on == []
    resources.close()
    assert len(made[0].closed_on) == 1
    assert log[-1] == "closed B"


def test_a_failure_of_closing_is_told_with_the_others_closed():
    log = []
    resources = opened(
        Binding(B, lambda r: Logged(log, "B")), Binding(Aclosed, lambda r: Aclosed(fails=True))
    )
    resources.get(B)
    resources.get(Aclosed)
    with pytest.raises(ResourceError, match=r"Closing failed for Aclosed \(OSError: gone\)"):
        resources.close()
    assert log[-1] == "closed B"


def test_an_instance_that_was_given_is_not_closed_by_awaiting_either():
    given = Aclosed()
    resources = opened(Binding.instance(Aclosed, given))
    resources.get(Aclosed)
    resources.close()
    assert given.closed_on == []


def test_under_the_async_driver_it_is_closed_on_the_loop_of_the_application():
    made = Aclosed()

    @tool
    async def use(*, context: ToolContext) -> str:
        """Use it."""
        return type(await context.resources.aget(Aclosed)).__name__

    async def work():
        with Host(discover=False, tools=[use]) as host:
            bound = [Binding(Aclosed, lambda r: made)]
            async with host.executor(resources=bound) as tools:
                assert (await tools.adispatch(ToolCall("use"))).success
        return asyncio.get_running_loop()

    loop = asyncio.run(work())
    assert made.closed_on == [loop]


def test_under_the_sync_driver_it_is_closed_on_the_loop_of_its_handlers():
    made, used_on = Aclosed(), []

    @tool
    async def use(*, context: ToolContext) -> None:
        """Use it."""
        context.resources.get(Aclosed)
        used_on.append(asyncio.get_running_loop())

    with (
        Host(discover=False, tools=[use]) as host,
        host.executor(resources=[Binding(Aclosed, lambda r: made)]) as tools,
    ):
        assert tools.dispatch(ToolCall("use")).success
    assert made.closed_on == used_on


def test_closed_on_its_own_loop_s_thread_it_does_not_stand_still():
    made = Aclosed()

    async def work():
        with Host(discover=False) as host:
            tools = await host.executor(resources=[Binding(Aclosed, lambda r: made)]).__aenter__()
            tools.resources.get(Aclosed)
            tools.close()

    asyncio.run(work())
    assert len(made.closed_on) == 1


def test_what_cannot_recover_is_closed_and_not_kept():
    log = []

    class Journal(Logged):
        def recover(self, decided):
            raise OSError("no answer")

    resources = opened(Binding(A, lambda r: Journal(log, "A")), Binding.instance(Decider, object()))
    with pytest.raises(OSError, match="no answer"):
        resources.get(A)
    assert log == ["made A", "finished A", "closed A"]


def test_a_tool_call_resource_is_one_for_each_call():
    resources = opened(Binding(A, lambda r: A(), Scope.TOOL_CALL))
    with resources.tool_scope() as first, resources.tool_scope() as second:
        assert first.get(A) is first.get(A)
        assert first.get(A) is not second.get(A)


def test_a_tool_call_resource_is_finished_and_closed_in_reverse_with_its_scope():
    log = []
    resources = opened(
        Binding(A, lambda r: (r.get(B), Logged(log, "A"))[1], Scope.TOOL_CALL),
        Binding(B, lambda r: Logged(log, "B"), Scope.TOOL_CALL),
        Binding(C, lambda r: Logged(log, "C")),
    )
    with resources.tool_scope() as tools:
        tools.get(A)
        tools.get(C)
    assert log[-2:] == ["closed A", "closed B"]
    with pytest.raises(ResourceError, match="after the resources were closed"):
        tools.get(A)
    resources.close()
    assert log[-1] == "closed C"


def test_outside_of_a_call_its_resources_are_refused():
    resources = opened(Binding(A, lambda r: A(), Scope.TOOL_CALL))
    with pytest.raises(ResourceError, match=r"A lives for one tool call.*tool_scope\(\)"):
        resources.get(A)


@pytest.mark.parametrize("between", [Scope.SINGLETON, Scope.PROTOTYPE])
def test_a_singleton_cannot_depend_on_a_tool_call_resource(between):
    resources = opened(
        Binding(A, lambda r: r.get(B)),
        Binding(B, lambda r: r.get(C), between),
        Binding(C, lambda r: C(), Scope.TOOL_CALL),
    )
    culprit = "B" if between is Scope.SINGLETON else "A"
    with (
        resources.tool_scope() as tools,
        pytest.raises(ResourceError, match=f"{culprit} is a singleton and cannot depend on C"),
    ):
        tools.get(A)


def test_a_call_that_passes_a_singleton_on_does_not_close_it():
    log = []
    resources = opened(
        Binding(A, lambda r: Logged(log, "A")), Binding(B, lambda r: r.get(A), Scope.TOOL_CALL)
    )
    with resources.tool_scope() as tools:
        assert tools.get(B) is tools.get(A)
    assert log == ["made A", "finished A"]
    resources.close()
    assert log == ["made A", "finished A", "closed A"]


def test_closes_in_reverse_order_also_after_errors_and_tells_all():
    log = []
    resources = opened(
        Binding(A, lambda r: Logged(log, "A", OSError("disk"))),
        Binding(B, lambda r: (r.get(A), Logged(log, "B"))[1]),
        Binding(C, lambda r: (r.get(B), Logged(log, "C", ValueError("net")))[1]),
    )
    resources.get(C)
    log.clear()
    with pytest.raises(ResourceError, match=r"ValueError: net.*OSError: disk") as caught:
        resources.close()
    assert log == ["closed C", "closed B", "closed A"]
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    resources.close()
    assert len(log) == 3


def test_an_interrupt_while_closing_leaves_when_all_is_closed():
    log = []
    resources = opened(
        Binding(A, lambda r: Logged(log, "A")),
        Binding(B, lambda r: Logged(log, "B", KeyboardInterrupt())),
    )
    resources.get(A)
    resources.get(B)
    with pytest.raises(KeyboardInterrupt):
        resources.close()
    assert log[-1] == "closed A"


def test_an_interrupt_while_closing_is_not_hidden_by_a_failure_within():
    resources = opened(Binding(A, lambda r: Logged([], "A", KeyboardInterrupt())))

    def use():
        with resources:
            resources.get(A)
            raise ValueError("within")

    with pytest.raises(KeyboardInterrupt) as caught:
        use()
    assert str(caught.value.__cause__) == "within"


def test_a_failure_of_closing_does_not_hide_the_one_within():
    def use():
        with opened(Binding(A, lambda r: Logged([], "A", OSError("disk")))) as resources:
            resources.get(A)
            raise KeyError

    with pytest.raises(KeyError) as caught:
        use()
    assert "disk" in caught.value.__notes__[0]


def test_after_closing_nothing_can_be_had():
    resources = opened(Binding(A, lambda r: A()), Binding(B, lambda r: B()))
    resources.get(A)
    resources.close()
    for kind in (A, B):
        with pytest.raises(ResourceError, match="after the resources were closed"):
            resources.get(kind)


def test_what_is_finished_after_closing_is_closed_at_once(start):
    log, began, release = [], threading.Event(), threading.Event()

    def provider(r):
        began.set()
        release.wait(30)
        return Logged(log, "A")

    resources = opened(Binding(A, provider))
    making = start(lambda: resources.get(A))
    assert began.wait(30)
    resources.close()
    release.set()
    assert isinstance(making.exception(30), ResourceError)
    assert log == ["made A", "finished A", "closed A"]


def test_a_resolver_kept_for_later_works_and_finds_circles():
    class Lazy:
        def __init__(self, resolver):
            self.resolver = resolver

    resources = opened(Binding(Lazy, Lazy), Binding(B, lambda r: r.get(Lazy).resolver.get(B)))
    lazy = resources.get(Lazy)
    with pytest.raises(CircularDependencyError, match="B -> B"):
        lazy.resolver.get(B)
    assert lazy.resolver.get(C, "none") == "none"
    assert C not in lazy.resolver
