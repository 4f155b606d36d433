"""Names, signatures and docstrings of the source, read without importing anything."""

from __future__ import annotations

import functools
import re
import textwrap

import griffe

from documenting.pages import ROOT, Page

#: The longest signature that stands on one line.
WIDTH = 88


@functools.cache
def package(name: str) -> griffe.Module:
    """Return one of the three packages as it is in the source."""
    loader = griffe.GriffeLoader(
        search_paths=[ROOT / "hookspecs", ROOT / "host", ROOT / "plugins"],
        docstring_parser="google",
        docstring_options={
            "warnings": False,
            "returns_multiple_items": False,
            "returns_named_value": False,
        },
    )
    loaded = {each: loader.load(each) for each in ("toolstile_hookspecs", "toolstile")}
    loader.resolve_aliases()
    module = loaded[name]
    assert isinstance(module, griffe.Module)
    return module


def top(thing: griffe.Object) -> str:
    """Return the name of the package that something is in."""
    return thing.path.partition(".")[0]


def exported(module: griffe.Module) -> list[str]:
    """Return the names that a module shows to the world; without a list, its functions.

    A package that does not list them literally shows what it imports from its own modules.
    """
    listed = module.exports or []
    if listed and all(isinstance(name, str) for name in listed):
        return [str(name) for name in listed]
    if module.is_init_module:
        imported = [member for member in module.members.values() if member.is_alias]
        own = f"{module.path}."
        return sorted(alias.name for alias in imported if alias.target_path.startswith(own))
    return [name for name in module.functions if not name.startswith("_")]


def resolve(module: griffe.Module, name: str) -> griffe.Object:
    """Return what a name of a module stands for, wherever that is defined."""
    found = module.members.get(name)
    if found is None or not (found.is_alias or found.docstring or found.is_class):
        # A package may load its names when they are first used.
        homes = [each for each in module.modules.values() if not each.is_alias]
        found = next((each[name] for each in _below(homes) if name in each.members), found)
    assert found is not None, f"{module.path}.{name} is not in the source"
    return found.final_target if isinstance(found, griffe.Alias) else found


def home(module: griffe.Module, name: str) -> griffe.Module:
    """Return the module that a name is shown under: its own, or the public one before it."""
    found: griffe.Object | griffe.Alias = resolve(module, name)
    if "._" in found.module.path and isinstance(alias := module.members[name], griffe.Alias):
        found = alias.target
    home = found.parent
    assert isinstance(home, griffe.Module)
    return home


def _below(modules: list[griffe.Module]) -> list[griffe.Module]:
    """Return modules and all below them."""
    found: list[griffe.Module] = []
    for each in modules:
        found += [each, *_below([m for m in each.modules.values() if not m.is_alias])]
    return found


def first_paragraph(thing: griffe.Object) -> str:
    """Return the first paragraph of a docstring, on one line."""
    text = thing.docstring.value if thing.docstring else ""
    return " ".join(text.split("\n\n")[0].split())


def signature(thing: griffe.Object) -> str:
    """Return how a class is made or a function called, as it is written in the source."""
    if not isinstance(thing, (griffe.Class, griffe.Function)):
        return f"{thing.name} = {thing.value}" if isinstance(thing, griffe.Attribute) else ""
    parameters = _parameters(thing)
    # Errors take any arguments; their bases say more.
    if isinstance(thing, griffe.Class) and (not parameters or "*args: object" in parameters):
        bases = ", ".join(str(each) for each in thing.bases)
        return f"class {thing.name}({bases})" if bases else f"class {thing.name}"
    returns = ""
    if isinstance(thing, griffe.Function) and thing.returns is not None:
        returns = f" -> {thing.returns}"
    line = f"{thing.name}({', '.join(parameters)}){returns}"
    if len(line) <= WIDTH:
        return line
    inside = textwrap.indent(",\n".join(parameters), "    ")
    return f"{thing.name}(\n{inside},\n){returns}"


def _parameters(thing: griffe.Class | griffe.Function) -> list[str]:
    shown: list[str] = []
    starred = False
    given = [each for each in thing.parameters if each.name not in {"self", "cls"}]
    for each in given:
        if each.kind is griffe.ParameterKind.keyword_only and not starred:
            shown.append("*")
            starred = True
        if each.kind is griffe.ParameterKind.var_positional:
            starred = True
        stars = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(each.kind, "")
        typed = f": {each.annotation}" if each.annotation is not None else ""
        default = _default(each) if not stars else None
        equals = " = " if typed else "="
        shown.append(f"{stars}{each.name}{typed}{f'{equals}{default}' if default else ''}")
        if each.kind is griffe.ParameterKind.positional_only and (
            each is given[-1]
            or given[given.index(each) + 1].kind is not griffe.ParameterKind.positional_only
        ):
            shown.append("/")
    return shown


def _default(parameter: griffe.Parameter) -> str | None:
    """Return a default; what is private or made on the spot is none of the reader's business."""
    text = None if parameter.default is None else str(parameter.default)
    return "..." if text and re.search(r"\b_\w|lambda|\w\(\)$|\]\(\)$", text) else text


def add_docstring(page: Page, thing: griffe.Object) -> None:
    """Append all that a docstring says."""
    for section in thing.docstring.parsed if thing.docstring else ():
        match section:
            case griffe.DocstringSectionText():
                page.add(section.value)
            case griffe.DocstringSectionParameters() | griffe.DocstringSectionAttributes():
                page.add(
                    "\n".join(
                        f"- `{each.name}`: {_inline(each.description)}" for each in section.value
                    )
                )
            case griffe.DocstringSectionReturns() | griffe.DocstringSectionYields():
                page.add(*(f"**Returns** {_inline(each.description)}" for each in section.value))
            case griffe.DocstringSectionRaises():
                lines = (
                    f"`{each.annotation}` {_inline(each.description)}" for each in section.value
                )
                page.add(f"**Raises** {' '.join(lines)}")
            case griffe.DocstringSectionAdmonition():
                _add_admonition(page, section)
            case _:
                raise ValueError(f"{thing.path}: a section of kind {section.kind} is not expected")


def _add_admonition(page: Page, section: griffe.DocstringSectionAdmonition) -> None:
    text = section.value.description
    if section.value.kind == "example":
        page.block("python", text)
    else:
        page.add(f"**{section.title}** {_inline(text)}")


def _inline(text: str) -> str:
    return " ".join(text.split())
