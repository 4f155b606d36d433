"""Checks a plugin's hook functions before pluggy sees them: it would accept many faults."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, Final

from toolstile.plugins.hook_manager import HookManager
from toolstile.plugins.plugin_errors import PluginFault
from toolstile.settings.table_validation import show
from toolstile_hookspecs import MarkdownSection, PluginError, Prompt, Tool
from toolstile_hookspecs.markers import HOOK_PREFIX, PROJECT
from toolstile_hookspecs.policies import POLICY_METHODS
from toolstile_hookspecs.support.text import nearest

WRAPPABLE: Final = ("toolstile_parse", "toolstile_execute", "toolstile_render")
AWAITABLE: Final = (
    "toolstile_lookup",
    "toolstile_parse",
    "toolstile_check",
    "toolstile_approve",
    "toolstile_snapshot",
    "toolstile_execute",
    "toolstile_on_result",
)
ITERABLE: Final = (
    "toolstile_sections",
    "toolstile_resources",
    "toolstile_commands",
    "toolstile_dialects",
    "toolstile_diagnose",
)

_MARK: Final = f"{PROJECT}_impl"
_FUNCTIONS: Final = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    staticmethod,
    classmethod,
    functools.partial,
)


def hooks_of(plugin: object, manager: HookManager) -> tuple[str, ...]:
    """Return the hooks that a plugin implements, in the order of their names.

    Raises:
        PluginFault: For the first function that does not fit its hook.
    """
    _refuse_hidden(plugin)
    found = (_hook_of(plugin, name, manager) for name in _named_as_hooks(plugin))
    return tuple(sorted({hook for hook in found if hook is not None}))


def hook_faults(plugin: object, manager: HookManager) -> list[PluginFault]:
    """Return everything for which `hooks_of` would refuse a plugin, one fault for a function."""
    faults: list[PluginFault] = []
    for name in (None, *_named_as_hooks(plugin)):
        try:
            if name is None:
                _refuse_hidden(plugin)
            else:
                _hook_of(plugin, name, manager)
        except PluginFault as fault:
            faults.append(fault)
    return faults


def _named_as_hooks(plugin: object) -> Iterator[str]:
    return (name for name in dir(plugin) if name.startswith(HOOK_PREFIX))


def _hook_of(plugin: object, name: str, manager: HookManager) -> str | None:
    options = manager.parse_hookimpl_opts(plugin, name)
    if options is None:
        _refuse_unmarked(plugin, name, manager)
        return None
    hook = options.get("specname") or name
    if hook not in manager.arguments:
        if not options.get("optionalhook"):
            raise _no_such_hook(hook, manager.arguments)
        return None
    function: Callable[..., Any] = getattr(plugin, name)
    _check_kind(hook, function, options)
    _check_arguments(hook, function, plugin, manager.arguments[hook])
    return hook


def _refuse_hidden(plugin: object) -> None:
    # Registration only looks at names with the prefix, so this one would be ignored in silence.
    for namespace in _namespaces(plugin):
        for name, value in namespace.items():
            if name.startswith(HOOK_PREFIX) or not isinstance(value, types.FunctionType):
                continue
            if _MARK in vars(value):
                raise PluginFault(
                    f"{name} is marked with @hookimpl, but is not named as hooks are.",
                    f"Let its name begin with {HOOK_PREFIX}, or remove @hookimpl.",
                )


def _namespaces(plugin: object) -> list[Mapping[str, object]]:
    if isinstance(plugin, types.ModuleType):
        return [vars(plugin)]
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return [vars(each) for each in kind.__mro__]


def _refuse_unmarked(plugin: object, name: str, manager: HookManager) -> None:
    static = inspect.getattr_static(plugin, name, None)
    if isinstance(static, (type, types.ModuleType, Tool)):
        return
    if isinstance(static, _FUNCTIONS):
        near = _nearest_hook(name, manager.arguments)
        hint = f" ({near} is a hook)" if near is not None and near != name else ""
        raise PluginFault(
            f"{name} is not marked with @hookimpl, so it would never be called{hint}.",
            f"Write @hookimpl above it, outermost; or let its name not begin with {HOOK_PREFIX}.",
        )
    if name in manager.arguments:
        raise PluginFault(
            f"{name} is not a function, so it would never be called.",
            "Write it as a function (or method), marked with @hookimpl.",
        )


def _nearest_hook(name: str, known: Iterable[str]) -> str | None:
    # With the prefix that all share, every name would be near.
    bare = [each.removeprefix(HOOK_PREFIX) for each in known]
    near = nearest(name.removeprefix(HOOK_PREFIX), bare)
    return None if near is None else HOOK_PREFIX + near


def _no_such_hook(hook: str, known: Mapping[str, object]) -> PluginFault:
    near = _nearest_hook(hook, known)
    remedy = f"Did you mean {near}?" if near else f"The hooks are {', '.join(sorted(known))}."
    return PluginFault(f"There is no hook {hook}.", remedy)


def _check_kind(hook: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    if options.get("hookwrapper"):
        raise PluginFault(
            f"{hook} is marked with hookwrapper=True, the old form of wrappers.",
            _instead_of_wrapper(hook, "hookwrapper"),
        )
    wrapper = bool(options.get("wrapper"))
    if wrapper and hook not in WRAPPABLE:
        raise PluginFault(
            f"{hook} cannot be wrapped; wrapper=True works on {', '.join(WRAPPABLE)}.",
            _instead_of_wrapper(hook, "wrapper"),
        )
    if inspect.isasyncgenfunction(function):
        raise PluginFault(*_async_generator(hook, wrapper=wrapper))
    if wrapper and not inspect.isgeneratorfunction(function):
        raise PluginFault(
            f"{hook} is marked with wrapper=True, but does not yield.",
            "Write `result = yield` where the others are to run and return the result, or "
            "remove wrapper=True.",
        )
    if not wrapper and inspect.isgeneratorfunction(function) and hook not in ITERABLE:
        raise PluginFault(*_generator(hook))
    if inspect.iscoroutinefunction(function) and hook not in AWAITABLE:
        raise PluginFault(
            f"{hook} is async, but this hook is never awaited.",
            "Write it with def; what has to wait belongs into a handler, or into an async "
            "context manager that toolstile_lifespan returns.",
        )


def _instead_of_wrapper(hook: str, option: str) -> str:
    if hook in WRAPPABLE:
        return (
            "Write @hookimpl(wrapper=True), and in the function `result = yield` followed by "
            "`return result`."
        )
    if hook in {"toolstile_trace", "toolstile_lifespan"}:
        return f"Return a context manager instead; remove {option}=True."
    return (
        f"Write a plain function without {option}=True; to go around a call as a whole, return "
        "a context manager from toolstile_trace."
    )


def _async_generator(hook: str, *, wrapper: bool) -> tuple[str, str]:
    if wrapper:
        return (
            f"{hook} is a wrapper written as an async generator.",
            "Write it with def; the host awaits what is inside, and `yield` gives the result.",
        )
    remedy = (
        "Write @asynccontextmanager between @hookimpl and the function."
        if hook == "toolstile_lifespan"
        else "Return the answer instead of yielding it."
    )
    return f"{hook} is an async generator.", remedy


def _generator(hook: str) -> tuple[str, str]:
    cause = f"{hook} yields, so its answer would be a generator."
    if hook in {"toolstile_trace", "toolstile_lifespan"}:
        return cause, "Write @contextmanager between @hookimpl and the function."
    if hook in WRAPPABLE:
        return cause, "Write @hookimpl(wrapper=True), or return the answer."
    return cause, "Return the answer instead of yielding it."


def _check_arguments(
    hook: str, function: Callable[..., Any], plugin: object, known: tuple[str, ...]
) -> None:
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise PluginFault(
                f"{hook} takes {'*' * (1 + (parameter.kind is parameter.VAR_KEYWORD))}{name}, "
                "but hooks are given the arguments that they name.",
                f"Name those it wants of {_listed(known)}.",
            )
        if name not in known:
            raise _no_such_argument(hook, name, plugin, known)
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise PluginFault(f"{hook} takes {name} by keyword only.", "Remove the * before it.")
        if parameter.default is not parameter.empty:
            raise PluginFault(
                f"{hook} has a default for {name}, which would never be used.",
                f"Write {name} without a default; the host always gives it.",
            )


def _no_such_argument(hook: str, name: str, plugin: object, known: tuple[str, ...]) -> PluginFault:
    if name == "self" and inspect.isclass(plugin):
        return PluginFault(
            f"The plugin is the class {plugin.__name__}, and {hook} needs an instance.",
            f"Name an instance instead, such as `plugin = {plugin.__name__}()`.",
        )
    near = nearest(name, known)
    hint = f" Did you mean {near}?" if near else ""
    return PluginFault(
        f"{hook} has no argument {name}; it has {_listed(known)}.{hint}",
        "Take those it has, by their names; leave out what is not needed.",
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


# --- Plugins given in Python


_PLAIN: Final = (str, bytes, int, float, type(None), PurePath, Mapping, Sequence, AbstractSet)


def refuse_hookless(plugin: object) -> None:
    """Refuse what has no hook and belongs elsewhere, such as a name, a tool or a policy.

    A host that took a policy for a plugin would do without it.

    Raises:
        PluginError: Naming the value and what to give.
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
