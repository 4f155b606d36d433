"""Checks a plugin's hook functions before pluggy sees them: it would accept many faults."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, cast

import pluggy

from toolstile.plugins.plugin_errors import PluginFault, one_line
from toolstile.settings.table_validation import show
from toolstile_hookspecs import (
    ContractDeprecationWarning,
    MarkdownSection,
    PluginError,
    Prompt,
    Tool,
    hooks,
)
from toolstile_hookspecs.execution.options import EFFECT_FREE
from toolstile_hookspecs.markers import CONCERNS, HOOK_PREFIX, PROJECT
from toolstile_hookspecs.policies import POLICY_METHODS
from toolstile_hookspecs.support.caches import cached
from toolstile_hookspecs.support.text import nearest


class HookManager(pluggy.PluginManager):
    """Registers plugins, and gives their implementations in the order of calling."""

    def __init__(self, specifications: ModuleType = hooks) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(specifications)
        self.arguments: Final = {
            name: () if hook.spec is None else tuple(hook.spec.argnames)
            for name, hook in vars(self.hook).items()
        }

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Return the options that `hookimpl` set on an attribute, or None for an unmarked one.

        Names without the hooks' prefix are passed over: pluggy would look up each, slowly.
        """
        return super().parse_hookimpl_opts(plugin, name) if name.startswith(HOOK_PREFIX) else None

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a plugin whole or not at all, also where warnings are errors."""
        try:
            return super().register(plugin, name)
        except Warning:
            self.unregister(name=name)
            raise

    def in_order(
        self, hook: str, settings: Mapping[str, object], states: Mapping[str, object]
    ) -> Iterator[Implementation]:
        """Yield a hook's implementations in the order of calling, wrappers first.

        Each has the settings and the state of its plugin.
        """
        caller: pluggy.HookCaller = getattr(self.hook, hook)
        for found in reversed(caller.get_hookimpls()):
            own = [each.get(found.plugin_name) for each in (settings, states)]
            yield implementation(found, hook, self.arguments[hook], *own)


@dataclass(frozen=True, slots=True)
class Implementation:
    """One implementation of a hook."""

    hook: str
    plugin: str
    # Takes the hook's arguments positionally, in the specification's order, without the settings
    # and the state, which it has.
    call: Callable[..., Any]
    wants_params: bool  # whether it is given the params, which may then have to be copied
    wrapper: bool  # whether `call` returns a generator that goes around the others
    # Tells which tools it is asked for; None for all.
    applies_to: Callable[[Tool[Any, Any]], bool] | None = None
    # Tells whether it will answer a call with an earlier result.
    recalls: Callable[..., Any] | None = None
    # Whether it takes the call's changes of the session or its diff, which the host must work out.
    retells: bool = False
    wants_diff: bool = False
    effect_free: bool = False  # whether it is a lifespan that is entered while a command only looks

    @property
    def title(self) -> str:
        return f"Plugin {self.plugin}"


def implementation(
    found: pluggy.HookImpl, hook: str, arguments: tuple[str, ...], *own: object
) -> Implementation:
    """Return an implementation that pluggy has found, bound to its settings and its state."""
    retold = {"changes", "diff"}
    retells = not retold.isdisjoint(found.argnames)
    unbound = {"settings", "state"} if retells else {"settings", "state", *retold}
    arguments = tuple(name for name in arguments if name not in unbound)
    function, wanted = found.function, tuple(found.argnames)
    if wanted != arguments:
        function = _picking(wanted, arguments)(function, *own)
    applies_to, recalls = getattr(found.function, CONCERNS, (None, None))
    return Implementation(
        hook=hook,
        plugin=found.plugin_name,
        call=function,
        wants_params="params" in found.argnames,
        wrapper=found.wrapper,
        applies_to=applies_to,
        recalls=recalls,
        retells=retells,
        wants_diff="diff" in found.argnames,
        effect_free=getattr(found.function, EFFECT_FREE, False),
    )


@lru_cache(maxsize=256)
def _picking(wanted: tuple[str, ...], given: tuple[str, ...]) -> Callable[..., Callable[..., Any]]:
    # Written out, it costs one more call; picking from *args would cost as much as four. All
    # names are arguments of our specifications, so nothing else gets into the source.
    inner = f"lambda {', '.join(given)}: function({', '.join(wanted)})"
    picking = eval(f"lambda function, settings, state: {inner}", {})  # noqa: S307 - names of ours
    return cast("Callable[..., Callable[..., Any]]", picking)


WRAPPABLE: Final = ("toolstile_parse", "toolstile_execute", "toolstile_render")
_AWAITED: Final = ("lookup", "parse", "check", "approve", "snapshot", "execute", "on_result")
AWAITABLE: Final = tuple(f"{HOOK_PREFIX}{name}" for name in _AWAITED)
_OFFERS: Final = ("sections", "resources", "commands", "dialects", "diagnose", "status")
ITERABLE: Final = tuple(f"{HOOK_PREFIX}{name}" for name in _OFFERS)

_MARK: Final = f"{PROJECT}_impl"
_MARKS: Final = pluggy.PluginManager(PROJECT)
"""Reads the marks of `hookimpl`."""
_FUNCTIONS: Final = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    staticmethod,
    classmethod,
    functools.partial,
)


def register_hooks(plugin: object, name: str, manager: HookManager) -> tuple[str, ...]:
    """Register a plugin, if all its functions fit, and return the hooks that it implements."""
    try:
        if faults := hook_faults(plugin, manager.arguments):
            raise faults[0]  # noqa: TRY301 - reported unchanged
        manager.register(plugin, name)
        callers = manager.get_hookcallers(plugin) or ()
        return tuple(sorted({caller.name for caller in callers}.intersection(manager.arguments)))
    except PluginFault:
        raise
    except ContractDeprecationWarning as warning:
        cause = f"It uses a deprecated name, and warnings are errors here: {warning}"
        raise PluginFault(cause, "Fix it, or let this warning be none.") from warning
    except Exception as error:
        cause = f"It cannot be registered: {one_line(error)}."
        raise PluginFault(cause, "Fix its hook functions.") from error


def hook_faults(plugin: object, hooks: Mapping[str, tuple[str, ...]]) -> Sequence[PluginFault]:
    """Return the faults of a plugin's functions, given the arguments of each hook."""
    known = tuple(hooks.items())
    if not isinstance(plugin, types.ModuleType):
        return _hook_faults(plugin, known)
    members: dict[str, object] = vars(plugin)
    functions = tuple(
        (name, value if isinstance(value, types.FunctionType) else type(value).__name__)
        for name, value in members.items()
        if name.startswith(HOOK_PREFIX) or isinstance(value, types.FunctionType)
    )
    return _faults_of_module(plugin, known, functions)


_Hooks = tuple[tuple[str, tuple[str, ...]], ...]


@cached(256)
def _faults_of_module(
    plugin: types.ModuleType,
    known: _Hooks,
    functions: tuple[tuple[str, object], ...],  # noqa: ARG001 - a test may replace one
) -> Sequence[PluginFault]:
    return _hook_faults(plugin, known)


def _hook_faults(plugin: object, known: _Hooks) -> Sequence[PluginFault]:
    hooks, faults = dict(known), list(_misnamed(plugin))
    for name in (name for name in dir(plugin) if name.startswith(HOOK_PREFIX)):
        try:
            _check(plugin, name, hooks)
        except PluginFault as fault:
            faults.append(fault)
    return tuple(faults)


def _check(plugin: object, name: str, hooks: Mapping[str, tuple[str, ...]]) -> None:
    options = _MARKS.parse_hookimpl_opts(plugin, name)
    if options is None:
        static = inspect.getattr_static(plugin, name, None)
        if isinstance(static, _FUNCTIONS):
            near = _nearest_hook(name, hooks)
            hint = f" ({near} is a hook)" if near is not None and near != name else ""
            raise PluginFault(
                f"{name} is not marked with @hookimpl, so it would never be called{hint}.",
                f"Write @hookimpl above it, outermost; or let its name not begin with "
                f"{HOOK_PREFIX}.",
            )
        if name in hooks and not isinstance(static, (type, types.ModuleType, Tool)):
            raise PluginFault(
                f"{name} is not a function, so it would never be called.",
                "Write it as a function (or method), marked with @hookimpl.",
            )
        return
    hook = options.get("specname") or name
    if hook in hooks:
        function: Callable[..., Any] = getattr(plugin, name)
        _check_form(hook, function, options)
        for parameter in inspect.signature(function).parameters.values():
            is_plain = parameter.kind in {
                parameter.POSITIONAL_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            }
            if is_plain and parameter.name not in hooks[hook]:
                raise _no_such_argument(hook, parameter.name, plugin, hooks[hook])
            if not is_plain or parameter.default is not parameter.empty:
                raise PluginFault(
                    f"{hook} takes {parameter}, but an argument of a hook has no default, no * and "
                    "no **: the host gives each that is named.",
                    f"Name those it wants of {_listed(hooks[hook])}, and nothing else.",
                )
    elif not options.get("optionalhook"):
        near = _nearest_hook(hook, hooks)
        known = ", ".join(sorted(hooks))
        remedy = f"Did you mean {near}?" if near else f"The hooks are {known}."
        raise PluginFault(f"There is no hook {hook}.", remedy)


def _misnamed(plugin: object) -> Iterator[PluginFault]:
    # Registration only looks at names with the prefix, so these would be ignored in silence.
    is_module = isinstance(plugin, types.ModuleType)
    type_ = plugin if isinstance(plugin, type) else type(plugin)
    for owner in (plugin,) if is_module else type_.__mro__:
        for name, value in vars(owner).items():
            if name.startswith(HOOK_PREFIX) or not isinstance(value, types.FunctionType):
                continue
            if _MARK in vars(value):
                yield PluginFault(
                    f"{name} is marked with @hookimpl, but is not named as hooks are.",
                    f"Let its name begin with {HOOK_PREFIX}, or remove @hookimpl.",
                )


def _nearest_hook(name: str, known: Iterable[str]) -> str | None:
    # With the prefix that all share, every name would be near.
    bare = [hook.removeprefix(HOOK_PREFIX) for hook in known]
    near = nearest(name.removeprefix(HOOK_PREFIX), bare)
    return None if near is None else HOOK_PREFIX + near


def _check_form(hook: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    is_generator = inspect.isgeneratorfunction(function)
    fits = False
    if options.get("hookwrapper"):
        form = "a wrapper of the old form, hookwrapper=True"
    elif inspect.isasyncgenfunction(function):
        form = "an async generator"
    elif options.get("wrapper"):
        fits = is_generator and hook in WRAPPABLE
        form = "a wrapper" if is_generator else "a wrapper that does not yield"
    elif is_generator:
        form, fits = "a generator", hook in ITERABLE
    elif inspect.iscoroutinefunction(function):
        form, fits = "async", hook in AWAITABLE
    else:
        return
    if not fits:
        raise PluginFault(f"{hook} is {form}, which it cannot be.", _right_form(hook))


def _right_form(hook: str) -> str:
    if hook in {"toolstile_trace", "toolstile_lifespan"}:
        either = " or @asynccontextmanager" if hook == "toolstile_lifespan" else ""
        return (
            f"Return a context manager: write @contextmanager{either} between @hookimpl and a "
            "function that yields once."
        )
    if hook in WRAPPABLE:
        return (
            "Return the answer; or, to go around the others, write @hookimpl(wrapper=True) and "
            "def, with `result = yield` followed by `return result`."
        )
    written = "def or async def" if hook in AWAITABLE else "def"
    return (
        f"Write it with {written}, and return the answer; to go around a call as a whole, return a "
        "context manager from toolstile_trace."
    )


def _no_such_argument(hook: str, name: str, plugin: object, known: tuple[str, ...]) -> PluginFault:
    if name == "self" and inspect.isclass(plugin):
        return PluginFault(
            f"The plugin is the class {plugin.__name__}, and {hook} needs an instance.",
            f"Name an instance instead, such as `plugin = {plugin.__name__}()`.",
        )
    if name == "state":
        return PluginFault(
            f"{hook} asks for state, and the host calls it before toolstile_lifespan yields one.",
            "Take state in a hook of a call; a provider or handler gets the object by its type.",
        )
    near = nearest(name, known)
    hint = f" Did you mean {near}?" if near else ""
    return PluginFault(
        f"{hook} has no argument {name}; it has {_listed(known)}.{hint}",
        "Take arguments of the hook by their names; leave out all others.",
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


_PLAIN: Final = (str, bytes, int, float, type(None), PurePath, Mapping, Sequence, AbstractSet)


def refuse_hookless(plugin: object) -> None:
    """Refuse an object without a hook that belongs elsewhere: a name, a tool or a policy.

    A host that took a policy for a plugin would do without it. The `PluginError` names the value
    and the right argument.
    """
    shown, type_ = show(plugin), plugin if isinstance(plugin, type) else type(plugin)
    if any(name.startswith(HOOK_PREFIX) for name in dir(type_)):
        return
    if isinstance(plugin, (str, PurePath)):
        remedy = "Write Host(discover=[name]), or Host(plugin_files=[path]) for one in a file."
    elif isinstance(plugin, (Tool, MarkdownSection, Prompt)):
        remedy = "Write Host(tools=[...]), or offer sections in the hook toolstile_sections."
    elif all(callable(getattr(type_, name, None)) for name in POLICY_METHODS):
        remedy = "It is a policy: write Host(policies=[...])."
    elif isinstance(plugin, _PLAIN):
        remedy = "Give a module, or an object with methods marked with @hookimpl."
    else:
        return
    raise PluginError(f"A plugin must have hooks, and {shown} has none. {remedy}")
