"""The configuration, the plugins, and what plugins say of that which they rely on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from toolstile.host import Host
from toolstile.plugins.plugin_errors import one_line
from toolstile.plugins.reports import PluginReport, described
from toolstile.policies.persistence import read
from toolstile.settings.sources import PREFIX
from toolstile.settings.table_validation import secrets_in, without_secrets
from toolstile_cli.lint.resources import resource_findings
from toolstile_hookspecs import ConfigurationError, Finding, PersistentPolicy

HOOK = "toolstile_diagnose"


def of_configuration(host: Host) -> Iterator[Finding]:
    """Yield where the configuration comes from, and what is wrong with it as a whole."""
    settings = host.configuration
    if settings.path is None:
        yield Finding.ok("configuration", "No toolstile.toml was found; the defaults hold.")
    else:
        yield Finding.ok("configuration", f"{settings.path}")
    # The names only: a value may be a secret.
    variables = sorted(name for name, value in os.environ.items() if value and _is_ours(name))
    if variables:
        yield Finding.ok("environment variables", ", ".join(variables))
    try:
        _ = host.approver
    except ConfigurationError as error:
        yield Finding.error("approver", str(error), "Name an installed approver, or none.")
    overrides = settings.prompt_overrides
    if overrides is not None and not overrides.is_file():
        yield Finding.error(
            f"prompt overrides {overrides}",
            "There is no such file.",
            "Write it with `toolstile prompt --overrides`, or fix prompt_overrides.",
        )
    for file in sorted({each.file for each in host.policies if isinstance(each, PersistentPolicy)}):
        yield _of_kept(file)


def _of_kept(file: Path) -> Finding:
    subject = f"kept policies {file}"
    try:
        records = read(file)
    except ConfigurationError as error:
        return Finding.error(subject, str(error), "When it is fixed, run this again.")
    # The file is replaced, not written into; where its folder is missing, that is made.
    folder = next(each for each in file.parents if each.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding.error(
            subject,
            f"It cannot be written: this user may not write in {folder}.",
            "Give this user the right to, or name another file with `keep`.",
        )
    return Finding.ok(subject, f"{len(records)} records." if records else "Nothing is kept yet.")


def of_plugins(host: Host) -> Iterator[Finding]:
    """Yield what became of each plugin, what it binds in vain, and uses that will be gone."""
    # What is offered late is asked for now: the reports then say what could not be taken.
    host.plugins.commands()
    host.dialects()
    for report in host.plugins.reports:
        yield _of_plugin(report)
        if report.status == "loaded":
            for found in resource_findings(host.plugins.loaded(report.name)):
                yield Finding.error(f"{found.where} of {report.name}", found.cause, found.remedy)
        for each in report.deprecations:
            yield Finding.warning(
                _subject(report), each, "Look for a newer version of it, or tell its author."
            )


def of_what_they_rely_on(host: Host) -> Iterator[Finding]:
    """Yield what the plugins find out; what one of them raises is a finding, too."""
    tables = host.configuration.plugins
    secrets = {each for name, table in tables.items() for each in secrets_in({name: table})}
    for each in _diagnosed(host):
        # What an author has overlooked is masked all the same.
        text, remedy = (
            without_secrets(each.text, secrets),
            each.remedy and without_secrets(each.remedy, secrets),
        )
        yield replace(
            each, subject=without_secrets(each.subject, secrets), text=text, remedy=remedy
        )


def _diagnosed(host: Host) -> Iterator[Finding]:
    bound = host.plugins.providers()
    for implementation in reversed(host.plugins.implementations(HOOK)):
        plugin = implementation.plugin
        try:
            answer = implementation.call(host.plugins.settings_of(plugin), bound)
            found = list(answer or ())
        except Exception as error:  # noqa: BLE001 - a plugin's fault hides nothing else
            yield Finding.error(
                f"plugin {plugin}", f"Its {HOOK} failed: {one_line(error)}.", "Fix the plugin."
            )
            continue
        for each in cast("list[object]", found):
            yield each if isinstance(each, Finding) else _no_finding(plugin, each)


def _no_finding(plugin: str, answer: object) -> Finding:
    return Finding.error(
        f"plugin {plugin}",
        f"Its {HOOK} answered {type(answer).__qualname__}, which is no Finding.",
        "Fix the plugin.",
    )


def _of_plugin(report: PluginReport) -> Finding:
    subject, remedy = _subject(report), report.remedy or "See `toolstile plugins`."
    if report.fault is None:
        return Finding.ok(subject, f"It is {report.status}.")
    if report.status == "blocked":
        return Finding.note(subject, report.fault, report.remedy)
    make = Finding.error if report.status == "failed" else Finding.warning
    return make(subject, report.fault, remedy)


def _subject(report: PluginReport) -> str:
    return f"plugin {described(report.name, report.distribution, report.version)}"


def _is_ours(variable: str) -> bool:
    return variable.startswith(PREFIX)
