"""The reference of a package's public names."""

from __future__ import annotations

from collections.abc import Sequence

import griffe

from documenting import source
from documenting.pages import Page

CONTRACT = "toolstile_hookspecs"


def names_page(title: str, intro: str, modules: Sequence[str]) -> Page:
    """Write the page of all names that some modules export.

    Args:
        title: The page's heading.
        intro: What stands before the names.
        modules: The modules, the package itself or some within it.
    """
    page = Page(title)
    page.add(intro)
    for path in modules:
        top, _, below = path.partition(".")
        module = source.package(top)[below] if below else source.package(top)
        assert isinstance(module, griffe.Module)
        page.block(
            "python", "\n".join(f"from {each} import *" for each in sorted({CONTRACT, path}))
        )
        _add_names(page, module)
    return page


def _add_names(page: Page, module: griffe.Module) -> None:
    things = {name: source.resolve(module, name) for name in source.exported(module)}
    homes: dict[str, list[griffe.Object]] = {}
    modules: dict[str, griffe.Module] = {}
    for name, thing in things.items():
        # The host exports the names of the contract, too; they have a page of their own.
        if not name.startswith("__") and source.top(thing) == source.top(module):
            home = source.home(module, name)
            modules[home.path] = home
            homes.setdefault(home.path, []).append(thing)
    for path in sorted(homes):
        page.heading(2, path.removeprefix(f"{module.path}."))
        page.add(source.first_paragraph(modules[path]))
        for thing in homes[path]:
            _add_name(page, thing)


def _add_name(page: Page, thing: griffe.Object) -> None:
    page.heading(3, thing.name)
    page.block("text", source.signature(thing))
    page.says(thing.name, source.first_paragraph(thing))
    source.add_docstring(page, thing)
    if isinstance(thing, griffe.Class):
        members = [each for each in thing.members.values() if _is_listed(thing, each)]
        page.table(
            ("member", ""),
            ((f"`{_called(each)}`", _member_says(page, thing, each)) for each in members),
        )


def _is_listed(owner: griffe.Class, member: griffe.Object | griffe.Alias) -> bool:
    """Tell whether a member is listed: methods, values, and attributes that say something.

    The tests of a suite say what they are by their names, and nobody calls them.
    """
    if member.name.startswith(("_", "test_")) or member.is_alias:
        return False
    if isinstance(member, griffe.Attribute) and "property" not in member.labels:
        return bool(member.docstring) or _is_enum(owner)
    return True


def _is_enum(owner: griffe.Class) -> bool:
    return any(str(each) in {"Enum", "IntEnum", "StrEnum"} for each in owner.bases)


def _called(member: griffe.Object | griffe.Alias) -> str:
    if not isinstance(member, griffe.Function):
        return member.name
    names = [each.name for each in member.parameters if each.name not in {"self", "cls"}]
    return f"{member.name}({', '.join(names)})"


def _member_says(page: Page, owner: griffe.Class, member: griffe.Object | griffe.Alias) -> str:
    """Return what a member is for, in its own words or in those of what it overrides."""
    assert isinstance(member, griffe.Object)
    said = source.first_paragraph(member)
    for base in owner.mro():
        if not said and member.name in base.members:
            overridden = base.members[member.name]
            if isinstance(overridden, griffe.Object):
                said = source.first_paragraph(overridden)
    if isinstance(member, griffe.Attribute) and not said and _is_enum(owner):
        return f"`{member.value}`"
    return page.says(f"{owner.name}.{member.name}", said)
