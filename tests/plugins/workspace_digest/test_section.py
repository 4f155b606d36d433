"""The section: a digest of the session, an override, an automatic one, or the placeholder."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from toolstile import Host, Settings
from toolstile.prompt_overrides import hash_of
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    Binding,
    DefinitionError,
    Filesystem,
    Prompt,
    ToolCall,
    Visibility,
    VisibilityExpansionRequired,
)
from toolstile_plugins import vfs, workspace_digest
from toolstile_plugins.agent import Agent
from toolstile_plugins.vfs import VirtualFilesystem
from toolstile_plugins.workspace_digest import (
    WorkspaceDigest,
    WorkspaceDigestSection,
    clear_workspace_digest,
    latest_workspace_digest,
    set_workspace_digest,
)
from toolstile_plugins.workspace_digest.digest import PLACEHOLDER

NOW = datetime(2026, 11, 1, tzinfo=UTC)
KEY = "workspace-digest"


def by_hand(body: str, key: str = KEY) -> WorkspaceDigest:
    return WorkspaceDigest(key, body, NOW)


@pytest.fixture
def overridden(tmp_path) -> Settings:
    file = tmp_path / "overrides.toml"
    table = f'[prompts."tests/main".sections.{KEY}]\nhash = "{hash_of(PLACEHOLDER)}"\n'
    file.write_text(f'{table}text = "By a person.\\n\\nCosts $$5."\n')
    return Settings(prompt_overrides=file)


# --- The text ---------------------------------------------------------------------------------


def test_session_wins_over_override_over_automatic_over_placeholder(show, project, overridden):
    files = VirtualFilesystem.in_memory(project)
    with show(files, settings=overridden) as shown:
        set_workspace_digest(shown.session, by_hand("Of the session."))
        assert shown.text() == "Of the session."
        clear_workspace_digest(shown.session)
        assert shown.text() == "By a person.\n\nCosts $5."
    with show(files) as shown:
        assert shown.text().startswith("6 files, ")
    with show() as shown:
        assert shown.text() == PLACEHOLDER


def test_a_stale_override_leaves_the_automatic_digest(show, project, tmp_path):
    file = tmp_path / "overrides.toml"
    file.write_text(f'[prompts."tests/main".sections.{KEY}]\nhash = "0"\ntext = "Old."\n')
    settings = Settings(prompt_overrides=file)
    with show(VirtualFilesystem.in_memory(project), settings=settings) as shown:
        assert shown.text().startswith("6 files, ")


def test_the_placeholder_is_logged_once(show, caplog):
    with caplog.at_level(logging.WARNING), show() as shown:
        section = WorkspaceDigestSection(key="logged-once")
        for _ in range(3):
            assert section.text_in(shown.session, shown.tools.resources, PLACEHOLDER)
    told = [record.getMessage() for record in caplog.records if "logged-once" in record.message]
    assert len(told) == 1
    assert "it has no workspace" in told[0]


def test_a_workspace_that_cannot_be_opened_leaves_the_placeholder(show, tmp_path):
    lost = Binding(Filesystem, lambda _: VirtualFilesystem.on_disk(tmp_path / "gone"))
    prompt = Prompt.of("tests", "main", [WorkspaceDigestSection(visibility=Visibility.FULL)])
    with Host(discover=False) as host, host.executor(prompt=prompt, resources=(lost,)) as tools:
        rendered = tools.prompt.render(tools.session, tools.resources)
        assert PLACEHOLDER in rendered.text


def test_without_an_executor_the_placeholder_is_shown_and_nothing_logged(caplog):
    prompt = Prompt.of("tests", "main", [WorkspaceDigestSection(key="alone")])
    with caplog.at_level(logging.WARNING):
        shown = prompt.render().text
    assert shown.startswith("# Workspace digest\n\nThe digest of the workspace is not made yet.\n")
    assert caplog.records == []


# --- The summary ------------------------------------------------------------------------------


def test_a_summary_is_shown_until_the_section_is_opened(project):
    files = VirtualFilesystem.in_memory(project)
    prompt = Prompt.of("tests", "main", [WorkspaceDigestSection()])
    resources = (Binding.instance(Filesystem, files),)
    with Host(discover=False) as host, host.executor(prompt=prompt, resources=resources) as tools:
        before = tools.prompt.render(tools.session, tools.resources)
        assert "6 files, 236 bytes. bakery: Bread by post.\n\n(This is a summary." in before.text
        assert "oven.py" not in before.text
        assert "refresh_digest" not in [tool.name for tool in before.tools]
        read = tools.dispatch(ToolCall("read_section", {"section_key": KEY}))
        assert "oven.py" in read.text
        with pytest.raises(VisibilityExpansionRequired) as raised:
            tools.dispatch(ToolCall("open_sections", {"section_keys": [KEY]}))
        after = tools.expand(raised.value)
        assert "oven.py" in after.text
        assert "refresh_digest" in [tool.name for tool in after.tools]


def test_the_summary_is_the_first_line_or_the_configured_one(show, overridden):
    summary = {"visibility": Visibility.SUMMARY}
    with show(**summary) as shown:
        set_workspace_digest(shown.session, by_hand("\n First. \n\nSecond."))
        assert shown.summary() == "First."
    with show(settings=overridden, **summary) as shown:
        assert shown.summary() == "By a person."
    with show(summary="A bakery.", **summary) as shown:
        set_workspace_digest(shown.session, by_hand("First."))
        assert shown.summary() == "A bakery."
    with show(**summary) as shown:
        set_workspace_digest(shown.session, by_hand("long " * 100))
        assert len(shown.summary()) == 160


# --- The session's digests --------------------------------------------------------------------


def test_a_session_holds_one_digest_for_each_key(show):
    with show() as shown:
        session = shown.session
        for body in ("One.", "Two."):
            set_workspace_digest(session, by_hand(body))
        set_workspace_digest(session, by_hand("Other.", " other "))
        assert [digest.body for digest in session[WorkspaceDigest].all()] == ["Two.", "Other."]
        found = latest_workspace_digest(session, "other")
        assert found is not None
        assert found.section_key == "other"
        clear_workspace_digest(session)
        assert latest_workspace_digest(session) is None
        assert latest_workspace_digest(session, "other ") == found


def test_digests_are_normalised(show):
    with show() as shown:
        kept = set_workspace_digest(shown.session, by_hand("\n\nA  \r\n  b\t\n", f" {KEY}\n"))
        assert kept == by_hand("A\n  b")
        assert latest_workspace_digest(shown.session) == kept


@pytest.mark.parametrize(("key", "body"), [("", "text"), (" ", "text"), (KEY, ""), (KEY, " \n")])
def test_empty_keys_and_texts_are_refused(show, key, body):
    with show() as shown:
        with pytest.raises(DefinitionError):
            set_workspace_digest(shown.session, by_hand(body, key))
        assert shown.session[WorkspaceDigest].all() == ()
        with pytest.raises(DefinitionError):
            latest_workspace_digest(shown.session, " ")
        with pytest.raises(DefinitionError):
            clear_workspace_digest(shown.session, " ")


def test_digests_are_part_of_a_sessions_snapshot(show, project):
    files = VirtualFilesystem.in_memory(project)
    with show(files) as shown:
        shown.tools.dispatch(ToolCall("refresh_digest", {}))
        shown.tools.dispatch(ToolCall("digest_directory", {"path": "src"}))
        text = shown.session.snapshot().to_json()
        kept = latest_workspace_digest(shown.session)
        restored = Host(discover=False, plugins=[workspace_digest]).session(text)
        assert latest_workspace_digest(restored) == kept
    with show(files, session=restored) as shown:
        assert "Stale" not in shown.text()
        again = shown.tools.dispatch(ToolCall("digest_directory", {"path": "src"}))
        assert again.text.startswith("Nothing has changed")


# --- Stale ------------------------------------------------------------------------------------


def stale(text: str) -> str:
    return next((line for line in text.splitlines() if line.startswith("Stale")), "")


def test_changed_files_are_named_in_one_line(show, make_files, project):
    files = make_files(project)
    with show(files) as shown:
        assert stale(shown.text()) == ""
        files.write("README.md", "# Bakery\n\nBakes rye brood.\n")  # as long as before
        files.write("src/oven.py", "def main(): return 1\n")
        files.delete("src/dough.py")
        files.write("src/new.py", "")
        assert stale(shown.text()) == (
            "Stale: `README.md`, `src/dough.py`, `src/new.py`, `src/oven.py` changed since this "
            "was made. Call refresh_digest."
        )
        assert shown.text().count("Stale") == 1


def test_the_summary_says_so_too(show, project):
    files = VirtualFilesystem.in_memory(project)
    with show(files, visibility=Visibility.SUMMARY) as shown:
        shown.text()
        files.write("README.md", "# Other\n")
        assert stale(shown.summary()).startswith("Stale: `README.md` changed")


def test_a_digest_that_was_made_anew_is_not_stale(show, make_files, project):
    files = make_files(project)
    with show(files) as shown:
        shown.text()
        files.write("src/new.py", "")
        assert stale(shown.text())
        assert shown.tools.dispatch(ToolCall("refresh_digest", {})).success
        assert stale(shown.text()) == ""
        assert "new.py" in shown.text()
        files.delete("src/new.py")
        assert "`src/new.py`" in stale(shown.text())
        files.write("src/new.py", "")
        assert stale(shown.text()) == ""


def test_another_time_or_an_ignored_file_makes_nothing_stale(show, make_files, project):
    files = make_files({**project, ".gitignore": "*.pyc\n"})
    with show(files) as shown:
        shown.text()
        files.write("src/oven.pyc", "x")
        files.write("src/__pycache__/oven.py", "x")
        files.write("README.md", str(project["README.md"]))
        assert stale(shown.text()) == ""


def test_many_ignored_files_make_nothing_stale(show):
    ignored = {f"src/{number:03}.pyc": "" for number in range(100)}
    files = VirtualFilesystem.in_memory({".gitignore": "*.pyc\n", "src/z.py": "", **ignored})
    with show(files) as shown:
        shown.text()
        files.write("src/000a.pyc", "")
        assert stale(shown.text()) == ""


def test_a_directory_of_which_a_part_is_shown_is_named_itself(show):
    files = VirtualFilesystem.in_memory(dict.fromkeys([f"src/{n:02}.py" for n in range(40)], ""))
    with show(files) as shown:
        shown.text()
        files.write("src/99.py", "")
        assert stale(shown.text()).startswith("Stale: `src/` changed")


def test_a_directory_that_is_gone_or_a_file_now_is_named(show, make_files, project):
    files = make_files(project)
    files.mkdir("empty")
    files.mkdir("full")
    with show(files) as shown:
        shown.text()
        files.delete("empty")
        files.delete("full")
        files.write("full", "")
        assert stale(shown.text()).startswith("Stale: `empty/`, `full/` changed")


def test_a_text_of_a_person_or_model_is_never_stale(show, project):
    files = VirtualFilesystem.in_memory(project)
    with show(files) as shown:
        set_workspace_digest(shown.session, by_hand("By hand."))
        files.write("README.md", "")
        assert shown.text() == "By hand."


# --- What rendering costs ---------------------------------------------------------------------


@pytest.mark.parametrize("files", [1_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_rendering_again_looks_at_what_is_shown_alone(show, counting, files):
    names = (f"d{n // 10_000}/e{n // 50}/f{n % 50}.py" for n in range(files))
    workspace = counting(VirtualFilesystem.in_memory(dict.fromkeys(names, "")))
    with show(workspace) as shown:
        first = shown.text()
        workspace.asked.clear()
        assert shown.text() == first
        assert workspace.asked.total() < 500


def test_rendering_again_reads_no_file_on_the_disk_again(show, counting, tmp_path, project):
    import os

    for path, content in project.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
        os.utime(tmp_path / path, (1_000, 1_000))
    workspace = counting(VirtualFilesystem.on_disk(tmp_path))
    with show(workspace) as shown:
        first = shown.text()
        assert len(workspace.read_paths) == len({*workspace.read_paths})
        workspace.read_paths.clear()
        assert shown.text() == first
        assert workspace.read_paths == []


# --- As a plugin ------------------------------------------------------------------------------


def test_the_plugin_offers_a_digest_where_it_is_asked_for(tmp_path, project):
    (tmp_path / "README.md").write_text("# Rolls\n")
    tables = {"vfs": {"root": str(tmp_path)}, "workspace_digest": {"summary": "Rolls."}}
    with (
        Host(discover=["vfs", "workspace_digest"], settings=Settings(plugins=tables)) as host,
        host.executor() as tools,
    ):
        text = tools.prompt.render(tools.session, tools.resources).text
        assert "# Workspace digest\n\nRolls.\n\n(This is a summary." in text
        read = tools.dispatch(ToolCall("read_section", {"section_key": KEY}))
        assert "> # Rolls" in read.text
    with Host(settings=Settings()) as host:
        assert "refresh_digest" not in host.catalog.names()


def test_an_agent_reads_the_digest_of_its_workspace(project):
    files = VirtualFilesystem.in_memory(project)
    prompt = Prompt.of(
        "tests",
        "main",
        [vfs.VfsToolsSection(filesystem=files), WorkspaceDigestSection(visibility=Visibility.FULL)],
    )
    model = ScriptedModel([("write_file", {"path": "new.md", "content": "x"})], "Done.")
    with Host(discover=False) as host:
        Agent(prompt, adapter=model, host=host).execute("Write.")
    first, second = (request.system for request in model.requests)
    assert "6 files, 236 bytes. bakery" in first
    assert "Stale" not in first
    assert "Stale: `new.md` changed" in second
