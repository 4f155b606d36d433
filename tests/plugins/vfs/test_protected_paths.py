"""Files that a person's programs run or obey are changed only after the person agreed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Session, Settings
from toolstile_hookspecs import (
    ApprovalRequest,
    ConfigurationError,
    Outcome,
    PolicyDecision,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.workspace import FileChanges
from toolstile_plugins.vfs import protected_paths
from toolstile_plugins.vfs.protected_paths import ProtectedPaths
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.workspace import VirtualFilesystem

LISTED = """
.git/hooks/pre-commit .git/config .git/config.worktree .git/info/attributes .git/info/grafts
.git/modules/lib/config .git/modules/a/b/hooks/post-checkout .git/worktrees/w/config.worktree
.git/rebase-merge/git-rebase-todo .git/rebase-apply/author-script .git/sequencer/todo
.git/sequencer/opts .git/objects/info/alternates .git/worktrees/w/rebase-merge/git-rebase-todo
.git/commondir .git deep/er/.git/config .GIT/config .git/remotes/origin .gitconfig
.config/git/config .config/git/attributes .husky/pre-commit .husky/_/husky.sh
.pre-commit-config.yaml lefthook.yml .lefthook-local.toml .envrc sub/.envrc .mise.toml mise.toml
mise.local.toml .tool-versions .npmrc sub/.npmrc .yarnrc.yml .yarn/releases/yarn.cjs pip.conf
.vscode/tasks.json sub/.vscode/settings.json .idea/workspace.xml my.code-workspace
.devcontainer/devcontainer.json .devcontainer.json .vimrc .exrc .nvim.lua .dir-locals.el
.gdbinit .lldbinit .mcp.json .claude/settings.json .cursor/rules .codex/config.toml
.gemini/settings.json AGENTS.md docs/AGENTS.md CLAUDE.md GEMINI.md toolstile.toml .bashrc
.bash_profile .profile .zshrc .zshenv .config/fish/config.fish .github/workflows/ci.yml
.gitlab-ci.yml .circleci/config.yml Jenkinsfile azure-pipelines.yml
.hg/hgrc .jj/repo/config.toml .overcommit.yml .Rprofile sub/.irbrc .pryrc bunfig.toml .pnp.cjs
.emacs.d/init.el .vim/plugin/a.vim .config/nvim/init.lua .clinerules/a.md .roo/mcp.json
.kiro/hooks/a .opencode/plugin/a.ts opencode.json .continue/config.yaml .aider.conf.yml
.github/instructions/a.md .gitea/workflows/ci.yml .woodpecker/ci.yml .drone.yml .appveyor.yml
""".split()  # noqa: SIM905 - a list of one word a line says no more
FREE = """
Makefile conftest.py tests/test_a.py setup.py package.json src/a.py README.md .gitignore
src/hooks/useThing.ts config src/config/config .github/CODEOWNERS vscode/a myAGENTS.md
AGENTS.md.txt .git/index .git/HEAD .git/refs/heads/config .git/refs/heads/hooks/x
.git/refs/remotes/origin/main .git/objects/ab/cd .git/logs/HEAD .git/COMMIT_EDITMSG
.git/objects/info/packs .git/rebase-merge/msgnum
.venv/bin/new node_modules/.bin/new .github/dependabot.yml docs/pip.conf.md envrc .config/other
modules/x/config HEAD refs/x
""".split()  # noqa: SIM905 - a list of one word a line says no more


@tool
def put(path: str, text: str, *, context: ToolContext) -> None:
    """Write a file as a tool of an application does."""
    assert context.filesystem is not None
    context.filesystem.write(path, text)


@tool
def outer(path: str, text: str, *, context: ToolContext) -> str:
    """Have another tool write a file."""
    return context.call("put", {"path": path, "text": text}).text


CONTEXT = ToolContext(session=Session())


class House:
    """A host over a directory, and the questions that its person was asked."""

    def __init__(
        self, root: Path, host: Host, executor: Executor, asked: list[ApprovalRequest]
    ) -> None:
        self.root = root
        self.host = host
        self.executor = executor
        self.asked = asked

    def __call__(self, name: str, **arguments: Any) -> Outcome:
        return self.executor.dispatch(ToolCall(name, json.dumps(arguments)))

    def asks(self, name: str, **arguments: Any) -> str:
        """Return the question about a call that a person denies; "" without one."""
        before = len(self.asked)
        outcome = self(name, **arguments)
        if len(self.asked) == before:
            assert outcome.success, outcome.text
            return ""
        assert outcome.status is Status.DENIED
        return " ".join(self.asked[-1].reasons)

    def asks_to_write(self, path: str, text: str = "new\n") -> str:
        return self.asks("put", path=path, text=text)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without settings of git."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    root = tmp_path / "workspace"
    root.mkdir()
    asked: list[ApprovalRequest] = []
    with ExitStack() as stack:

        def opened(answer: bool = False, **vfs: Any) -> House:
            def person(request: ApprovalRequest) -> bool:
                asked.append(request)
                return answer

            settings = Settings(plugins={"vfs": {"root": str(root), **vfs}, "code": {}})
            host = Host(settings=settings, approver=person, tools=[put, outer])
            host = stack.enter_context(host)
            return House(root, host, stack.enter_context(host.executor()), asked)

        yield opened


@pytest.fixture
def at(house: Callable[..., House]) -> House:
    return house()


def git(root: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


# --- The list


@pytest.mark.parametrize("way", ["put", "outer", "script"])
def test_every_entry_of_the_list_is_asked_about(at: House, way: str) -> None:
    def plant(path: str) -> str:
        if way == "script":
            return at.asks("run_python", code=f"put(path={path!r}, text='evil')")
        return at.asks(way, path=path, text="evil")

    quiet = [path for path in LISTED if path not in plant(path)]
    assert quiet == []
    assert list(at.root.rglob("*")) == []


@pytest.mark.parametrize("mode", ["all", "read", "none", "auto"])
@pytest.mark.parametrize("approve_diff", [False, True])
def test_every_entry_is_refused_by_each_mode_that_reaches_no_person(
    tmp_path: Path, mode: str, approve_diff: bool
) -> None:
    (tmp_path / "work").mkdir()
    settings = Settings(
        approver="approval",
        approve_diff=approve_diff,
        plugins={"approval": {"mode": mode}, "vfs": {"root": str(tmp_path / "work")}},
    )
    with Host(settings=settings) as host, host.executor() as executor:
        for path in LISTED:
            call = ToolCall("write_file", {"path": path, "content": "evil"})
            outcome = executor.dispatch(call)
            assert outcome.status is Status.DENIED, path
            assert "only a person may allow" in outcome.text
            assert path not in outcome.text.replace("write_file", "")
    assert [each for each in (tmp_path / "work").rglob("*") if each.name != ".toolstile"] == []


def test_the_code_of_the_project_is_not_asked_about(at: House) -> None:
    git(at.root, "init", "-q")
    loud = {path: why for path in FREE if (why := at.asks_to_write(path))}
    assert loud == {}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("write_file", {"path": ".envrc", "content": "evil"}),
        ("write_file", {"path": "./sub//../.envrc", "content": "evil"}),
        ("write_file", {"path": "/workspace/.envrc", "content": "evil"}),
        ("copy_file", {"source": "notes.txt", "target": ".envrc"}),
        ("move_file", {"source": "notes.txt", "target": ".vscode/tasks.json"}),
        ("move_file", {"source": "ready", "target": ".github"}),
        ("move_file", {"source": ".idea", "target": "idea"}),
        ("delete_file", {"path": ".idea", "recursive": True}),
        ("edit_file", {"path": ".npmrc", "old_text": "a", "new_text": "b"}),
    ],
)
def test_file_tools_are_asked_about_by_the_paths_that_they_change(
    house: Callable[..., House], name: str, arguments: dict[str, Any]
) -> None:
    at = house(confirm_deletes=False)
    for path in ("notes.txt", "ready/workflows/ci.yml", ".idea/workspace.xml", ".npmrc"):
        (at.root / path).parent.mkdir(parents=True, exist_ok=True)
        (at.root / path).write_text("a")
    for path in ("notes.txt", ".npmrc"):
        at("read_file", path=path)
    before = sorted(at.root.rglob("*"))
    assert at.asks(name, **arguments)
    assert [each for each in sorted(at.root.rglob("*")) if ".toolstile" not in each.parts] == before


def test_the_question_names_the_path_the_program_and_the_setting(at: House) -> None:
    assert at.asks_to_write(".envrc") == (
        "It changes files that your programs run or obey without being asked: .envrc (a shell). To "
        'allow that without a question, add to [plugins.vfs]: unprotected = [".envrc"]'
    )
    assert at.asked[0].diff is not None
    assert at.asked[0].diff.startswith("decide on:\n  .envrc\nthe workspace:\n")
    assert at("put", path=".envrc", text="").text == (
        "A person did not approve put. Nothing of it is kept. Do not retry it unchanged."
    )


def test_an_approved_change_is_kept_and_asked_about_again_the_next_time(
    house: Callable[..., House],
) -> None:
    at = house(answer=True)
    for text in ("one", "two"):
        assert at("put", path=".envrc", text=text).success
        assert (at.root / ".envrc").read_text() == text
    assert len(at.asked) == 2


def test_a_file_that_is_written_again_as_it_was_is_no_change(at: House) -> None:
    (at.root / ".envrc").write_text("export A=1\n")
    assert at.asks_to_write(".envrc", "export A=1\n") == ""
    assert at.asks_to_write(".envrc", "export A=2\n")


def test_the_list_is_changed_by_settings(house: Callable[..., House]) -> None:
    at = house(protected=["deploy/**"], unprotected=["**/AGENTS.md", ".vscode/**"])
    assert "deploy/run.sh (protected in [plugins.vfs])" in at.asks_to_write("deploy/run.sh")
    for path in ("AGENTS.md", "docs/AGENTS.md", ".vscode/tasks.json"):
        assert at.asks_to_write(path) == ""
    assert at.asks_to_write("sub/.vscode/tasks.json")
    with (
        pytest.raises(ConfigurationError, match=r"plugins\.vfs.*protected"),
        Host(settings=Settings(plugins={"vfs": {"protected": ["../x"]}})),
    ):
        pass


def test_the_doctor_shows_the_list(at: House) -> None:
    from toolstile_plugins.vfs import toolstile_diagnose

    found = toolstile_diagnose(VfsConfig(protected=("deploy/**",), unprotected=("**/.envrc",)))
    text = next(each.text for each in found if each.subject == "protected paths")
    globs = " ".join(protected_paths.PROTECTED.values()).split()
    assert [glob for glob in globs if glob not in text] == []
    assert "also deploy/**; but not **/.envrc" in text


def test_a_workspace_in_memory_is_protected_as_well() -> None:
    with Host(settings=Settings(plugins={"vfs": {}})) as host, host.executor() as executor:
        outcome = executor.dispatch(ToolCall("write_file", {"path": ".envrc", "content": "x"}))
        assert "only a person may allow" in outcome.text
        assert "envrc" not in outcome.text.replace("write_file", "")


# --- Other names of the same files


def test_where_a_link_leads_is_protected(at: House) -> None:
    (at.root / "sub").mkdir()
    (at.root / "sub" / "tasks").mkdir()
    (at.root / "notes.md").write_text("")
    (at.root / "CLAUDE.md").symlink_to("notes.md")
    (at.root / "sub" / ".vscode").symlink_to("tasks")
    assert "CLAUDE.md leads to it" in at.asks_to_write("notes.md")
    assert "sub/.vscode leads to it" in at.asks_to_write("sub/tasks/tasks.json")


def test_a_hard_link_of_a_protected_file_is_protected(at: House) -> None:
    (at.root / ".envrc").write_text("a")
    for name, source in (("link.txt", ".envrc"), ("other.txt", "plain.txt")):
        (at.root / "plain.txt").write_text("b")
        os.link(at.root / source, at.root / name)
    assert "the same file as .envrc" in at.asks_to_write("link.txt")
    assert at.asks_to_write("other.txt") == ""


@pytest.mark.parametrize("path", [".vscode", ".github", ".config", ".envrc", ".git", "x/.husky"])
def test_a_link_that_brings_such_files_in_is_asked_about(path: str) -> None:
    files = VirtualFilesystem.in_memory({"ready/tasks.json": "", "ready/workflows/ci.yml": ""})
    branch = files.own_branch()
    branch.resource.link(path, "ready")
    decision = ProtectedPaths().check_changes(put, branch.file_changes(), context=CONTEXT)
    assert path in decision.paths


def test_toolstiles_own_settings_and_plugin_files_are_protected(at: House) -> None:
    (at.root.parent / "toolstile.toml").write_text('plugin_files = ["workspace/ours.py"]')
    (at.root / "toolstile.toml").write_text('plugin_files = ["tools/more.py"]')
    assert at.asks_to_write("ours.py")
    assert at.asks_to_write("tools/more.py")
    assert at.asks_to_write("tools/other.py") == ""
    assert at.asks_to_write("pyproject.toml", "[project]\nname = 'x'\n") == ""
    ours = "[project]\nname = 'x'\n[tool.toolstile]\npolicies = []\n"
    assert at.asks_to_write("pyproject.toml", ours)
    (at.root / "pyproject.toml").write_text(ours)
    assert at.asks_to_write("pyproject.toml", "") != ""
    assert at.asks_to_write("pyproject.toml", ours.replace("'x'", "'y'")) == ""


# --- Environments


@pytest.mark.parametrize("name", [".venv", "sub/node_modules"])
def test_the_programs_of_an_environment_that_was_there_before(at: House, name: str) -> None:
    (at.root / name / "bin").mkdir(parents=True)
    (at.root / name / "lib").mkdir()
    (at.root / name / "lib" / "tool").write_text("")
    (at.root / name / "lib" / "tool").chmod(0o755)
    for path in ("bin/python", "lib/x.pth", "lib/sitecustomize.py", "lib/tool"):
        question = at.asks_to_write(f"{name}/{path}")
        assert f"{name}/ (executables and start-up files: 1)" in question
        assert f'"{name}/**"' in question
    assert at.asks_to_write(f"{name}/lib/x.py") == ""


def test_many_programs_are_one_line(at: House) -> None:
    (at.root / ".venv").mkdir()
    code = "for n in range(30):\n    put(path=f'.venv/bin/{n}', text='x')"
    assert ".venv/ (executables and start-up files: 30)." in at.asks("run_python", code=code)
    assert at.asked[0].diff is not None
    assert at.asked[0].diff.startswith(
        "decide on:\n  .venv/ (executables and start-up files: 30)\n"
    )


def test_an_environment_that_the_session_made_is_its_own(at: House) -> None:
    for text in ("one", "two"):
        assert at.asks_to_write(".venv/bin/python", text) == ""
    with at.host.executor() as executor:
        call = ToolCall("put", {"path": ".venv/bin/python", "text": "three"})
        assert not executor.dispatch(call).success


def test_an_environment_behind_a_link(at: House) -> None:
    (at.root / "envs" / "a").mkdir(parents=True)
    (at.root / ".venv").symlink_to("envs/a")
    assert ".venv/ (executables" in at.asks_to_write("envs/a/bin/python")
    assert at.asks_to_write("envs/a/lib/x.py") == ""
    assert at.asks_to_write("envs/b/bin/python") == ""


def test_an_environment_of_a_denied_call_is_not_the_sessions(at: House) -> None:
    code = "put(path='.venv/bin/x', text='a')\nput(path='.envrc', text='b')"
    assert at.asks("run_python", code=code)
    (at.root / ".venv" / "bin").mkdir(parents=True)
    assert at.asks_to_write(".venv/bin/x")


def test_an_environment_of_a_call_that_another_policy_denies_is_not_the_sessions(
    tmp_path: Path,
) -> None:
    """The file's content decides, after the protected paths were found to be free."""

    class NoEvil:
        name = "no evil"

        def check_changes(
            self, tool: Tool[Any, Any], changes: FileChanges, *, context: ToolContext
        ) -> PolicyDecision:
            evil = any(changes.read(each.path, False) == b"evil" for each in changes)
            return PolicyDecision.deny("It is evil.") if evil else PolicyDecision.allow()

        def check(self, *args: Any, **kwargs: Any) -> PolicyDecision:
            return PolicyDecision.allow()

        def on_result(self, *args: Any, **kwargs: Any) -> None:
            pass

    root = tmp_path / "workspace"
    root.mkdir()
    settings = Settings(plugins={"vfs": {"root": str(root)}})
    with (
        Host(settings=settings, tools=[put], policies=[NoEvil()]) as host,
        host.executor() as executor,
    ):
        for name in (".venv", "sub/venv", "node_modules"):

            def write(text: str, path: str = f"{name}/bin/x") -> Outcome:
                return executor.dispatch(ToolCall("put", {"path": path, "text": text}))

            assert write("evil").text == "It is evil."
            (root / name).mkdir(parents=True)
            assert "only a person may allow" in write("good").text
            (root / name).rmdir()
            assert write("good").success
            assert write("better").success


# --- Git


@pytest.fixture
def repository(at: House) -> House:
    """A repository with a remote, a branch and a commit."""
    git(at.root, "init", "-q", "-b", "main")
    git(at.root, "remote", "add", "origin", "https://example.com/x.git")
    (at.root / "tools").mkdir()
    (at.root / "tools" / "keep").write_text("")
    return at


CONFIG = '[branch "x"]\n\tremote = origin\n\tmerge = refs/heads/x\n'


def test_gits_configuration_is_judged_by_key(repository: House, subtests: pytest.Subtests) -> None:
    for added, is_harmless in [
        (CONFIG, True),
        (CONFIG.replace("\t", "    "), True),
        ('[branch "x"]\n\tremote = origin\n', True),
        (CONFIG.replace("= origin", "= other"), False),
        (CONFIG.replace("= origin", "= ext::sh -c evil"), False),
        (CONFIG.replace("refs/heads/x", "refs/tags/x"), False),
        (CONFIG.replace("refs/heads/x", 'refs/heads/x "y"'), False),
        (f"{CONFIG}\trebase = true\n", False),
        (f"{CONFIG}[core]\n\tfsmonitor = ./evil\n", False),
        ("[core] fsmonitor = ./evil\n", False),
        ("[core]\n\tfsmonitor = \\\n./evil\n", False),
        ('[branch "x"]\n\tmerge = refs/heads/x\\\n\\n[core]\\nfsmonitor = ./evil\n', False),
        ("[CORE]\n\tHooksPath = x\n", False),
        ('[include]\n\tpath = "x"\n', False),
        ('[includeIf "gitdir:/"]\n\tpath = x\n', False),
        ("[branch]\n\tremote = origin\n", False),
        ("[branch.x]\n\tremote = origin\n", False),
        ('[remote "other"]\n\turl = x\n[branch "x"]\n\tremote = other\n', False),
        ('[alias]\n\tst = "!evil"\n', False),
        ("; a comment\n# another\n", True),
        ("# a comment \\\n", False),
        ("\x0b[core]\n\tpager = evil\n", False),
        ("\ufeff[core]\n\tpager = evil\n", False),
        ("garbage\n", False),
    ]:
        with subtests.test(added=added, is_harmless=is_harmless):
            before = (repository.root / ".git" / "config").read_text()
            assert (repository.asks_to_write(".git/config", before + added) == "") is is_harmless
            assert (repository.asks_to_write(".git/config", added + before) == "") is is_harmless


def test_a_key_that_is_removed_or_changed_is_asked_about(repository: House) -> None:
    config = repository.root / ".git" / "config"
    config.write_text(f"{config.read_text()}{CONFIG}[safe]\n\tbareRepository = explicit\n\tx\n")
    text = config.read_text()
    assert repository.asks_to_write(".git/config", text.replace(CONFIG, "")) == ""
    assert repository.asks_to_write(".git/config", text.replace("explicit", "all"))
    assert repository.asks_to_write(".git/config", text.replace("\tx\n", "\tx =\n"))
    assert repository.asks_to_write(".git/config", text.split("[safe]")[0])
    assert repository.asks_to_write(".git/config", "")


@pytest.mark.parametrize(
    ("content", "asks"),
    [
        ("*.c filter=evil\n", True),
        ("* text filter\n", True),
        ("*.c\rfilter=evil\n", True),
        ("*.c filter\r=evil\n", True),
        ("[attr]mine filter=evil\n", True),
        ("*.filter text\n", False),
        ("* text=auto\n# the filter is not here\n", True),
        ("*.py diff=python -filter\n", False),
    ],
)
def test_attributes_that_name_a_filter(at: House, content: str, asks: bool) -> None:
    assert (at.asks_to_write("sub/.gitattributes", content) != "") is asks


def test_the_folder_of_hooks_path_and_included_files(repository: House, home: Path) -> None:
    git(repository.root, "config", "core.hooksPath", "tools/hooks")
    git(repository.root, "config", "include.path", "../team.cfg")
    (repository.root / "team.cfg").write_text('[core]\n\tattributesFile = "team.attr" # ours\n')
    (home / ".gitconfig").write_text("[core]\n\thooksPath = .own-hooks\n")
    for path in ("tools/hooks/pre-commit", "tools/hooks/lib/x.sh", "team.cfg", ".own-hooks/x"):
        assert f"{path} (git)" in repository.asks_to_write(path)
    assert repository.asks_to_write("tools/other") == ""
    assert repository.asks_to_write("src/tools/hooks/x") == ""


def test_programs_that_gits_configuration_names(repository: House) -> None:
    git(repository.root, "config", "filter.clean-up.clean", "./tools/clean.sh --all %f")
    git(repository.root, "config", "core.fsmonitor", "tools/watch.sh")
    git(repository.root, "config", "credential.helper", "")
    for path in ("tools/clean.sh", "tools/watch.sh"):
        assert repository.asks_to_write(path)
    assert repository.asks_to_write("tools/build.sh") == ""


def test_each_way_to_name_a_program_or_folder(repository: House, subtests: pytest.Subtests) -> None:
    for key, value, path in [
        ("core.hooksPath", "a#b;c", "a#b;c/pre-commit"),
        ("core.hooksPath", 'a"b', 'a"b/pre-commit'),
        ("core.hooksPath", ".", "pre-commit"),
        ("init.templateDir", "tools/new", "tools/new/hooks/post-checkout"),
        ("interactive.diffFilter", "tools/x", "tools/x"),
        ("pager.log", "tools/x", "tools/x"),
        ("alias.st", "!cd src; exec ./tools/x", "tools/x"),
        ("sendemail.toCmd", "tools/x", "tools/x"),
        ("diff.a.command", "sh -c ./tools/x", "tools/x"),
        ("core.fsmonitor", "python3 tools/x.py", "tools/x.py"),
        ("credential.helper", "!f() { ./tools/x; }; f", "tools/x"),
    ]:
        with subtests.test(key=key, value=value, path=path):
            git(repository.root, "config", "alias.t", "!cd tools/ && make")
            git(repository.root, "config", "branch.main.merge", "refs/heads/main")
            for free in ("tools/y", "refs/heads/main"):
                assert repository.asks_to_write(free) == ""
            git(repository.root, "config", key, value)
            assert repository.asks_to_write(path)


def test_a_hooks_folder_behind_a_link(repository: House) -> None:
    (repository.root / "hooks").symlink_to("tools")
    git(repository.root, "config", "core.hooksPath", "hooks")
    assert repository.asks_to_write("tools/pre-commit")
    assert repository.asks("delete_file", path="hooks")


def test_calls_side_by_side_cannot_make_a_repository_together(at: House) -> None:
    """None of them makes one alone, and each sees the workspace without the other."""
    calls = [
        ToolCall("put", {"path": f"x/{path}", "text": "ref: refs/heads/main"})
        for path in ("hooks/pre-commit", "HEAD", "objects/keep", "refs/keep")
    ]
    outcomes = at.executor.dispatch_all(calls)
    kept = [getattr(each, "success", False) for each in outcomes]
    assert at.asked or not all(kept)
    assert not all((at.root / "x" / name).exists() for name in ("HEAD", "objects", "refs"))


def test_the_repository_around_the_workspace_names_folders_in_it(at: House) -> None:
    git(at.root.parent, "init", "-q")
    git(at.root.parent, "config", "core.hooksPath", "workspace/ci/hooks")
    assert at.asks_to_write("ci/hooks/pre-commit")


def test_the_repositories_of_submodules_and_linked_worktrees(tmp_path: Path, at: House) -> None:
    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "-q", "-b", "main")
    git(source, "commit", "-q", "--allow-empty", "-m", "1")
    git(at.root, "init", "-q", "-b", "main")
    git(at.root, "submodule", "add", "-q", str(source), "lib/sub")
    git(at.root, "commit", "-q", "-m", "1")
    git(at.root, "config", "core.hooksPath", "team")
    git(at.root / "lib" / "sub", "config", "core.hooksPath", "ours")
    git(at.root, "worktree", "add", "-q", "tree")
    for path in (
        "lib/sub/.git",
        "lib/sub/ours/pre-commit",
        ".git/modules/lib/sub/config",
        ".git/modules/lib/sub/hooks/pre-commit",
        ".git/worktrees/tree/config.worktree",
        ".git/worktrees/tree/commondir",
        "tree/.git",
        "tree/team/pre-commit",
    ):
        assert path in at.asks_to_write(path)
    git(at.root / "lib" / "sub", "config", "core.hooksPath", "../../shared")
    assert at.asks_to_write("shared/pre-commit")
    for path in ("lib/sub/a.py", ".git/modules/lib/sub/index", ".git/worktrees/tree/index"):
        assert at.asks_to_write(path) == ""


@pytest.mark.parametrize(
    ("nested", "bare", "value", "path"),
    [
        ("vendor/lib", False, "../../shared/hooks", "shared/hooks/pre-commit"),
        ("a/b/c/d", False, "{root}/ci", "ci/post-checkout"),
        ("a/b/mirror.git", True, "../../../team", "team/pre-receive"),
    ],
)
def test_a_nested_repository_may_name_a_folder_outside_of_it(
    at: House, nested: str, bare: bool, value: str, path: str
) -> None:
    inner = at.root / nested
    inner.mkdir(parents=True)
    if "a/b" in nested:
        git(at.root, "init", "-q")
    git(inner, "init", "-q", *(["--bare"] if bare else []))
    git(inner, "config", "core.hooksPath", value.format(root=at.root))
    assert f"{path} (git)" in at.asks_to_write(path)
    assert at.asks_to_write(f"src/{path}") == ""


def test_a_linked_worktree_of_a_nested_repository(at: House) -> None:
    inner = at.root / "vendor" / "lib"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "1")
    git(inner, "worktree", "add", "-q", str(at.root / "tree"))
    git(inner, "config", "core.hooksPath", "../from-tree")
    for path in ("from-tree/x", "vendor/from-tree/x"):
        assert f"{path} (git)" in at.asks_to_write(path)


def test_a_nested_repository_that_comes_later_is_found(at: House) -> None:
    assert at.asks_to_write("first") == ""
    for name in ("one", "two/three"):
        (at.root / name).mkdir(parents=True)
        git(at.root / name, "init", "-q")
        git(at.root / name, "config", "core.hooksPath", f"{at.root}/{name}-hooks")
        until = time.monotonic() + 20
        while not at.asks_to_write(f"{name}-hooks/x"):
            assert time.monotonic() < until


def test_a_directory_that_becomes_a_repository(at: House) -> None:
    """Its hooks may have been there before, when they were ordinary files."""
    for path in ("x/y/hooks/pre-commit", "x/y/config", "x/y/objects/keep", "x/y/refs/keep"):
        assert at.asks_to_write(path) == ""
    assert "x/y/HEAD (git)" in at.asks_to_write("x/y/HEAD", "ref: refs/heads/main\n")
    (at.root / "x" / "y" / "HEAD").write_text("ref: refs/heads/main\n")
    for path in ("hooks/pre-commit", "config", "info/attributes", "commondir", "config.worktree"):
        assert at.asks_to_write(f"x/y/{path}", "evil\n")
    for path in ("HEAD", "refs/heads/main", "objects/ab/cd", "description", "src/config"):
        assert at.asks_to_write(f"x/y/{path}") == ""
    assert at.asks("move_file", source="x/y", target="z")
    assert at.asks_to_write("w/HEAD") == ""
    assert at.asks_to_write("w/commondir", "../x/y")


@pytest.mark.parametrize("directory", ["hooks", "info", "rebase-merge"])
@pytest.mark.parametrize("repository", ["x.git", ".git/modules/lib", ".git"])
def test_a_link_in_the_place_of_a_directory_that_git_obeys(repository: str, directory: str) -> None:
    there = {f"{repository}/{name}": "" for name in ("HEAD", "objects/keep", "refs/keep")}
    branch = VirtualFilesystem.in_memory({"evil/pre-commit": "", **there}).own_branch()
    branch.resource.link(f"{repository}/{directory}", "evil")
    decision = ProtectedPaths().check_changes(put, branch.file_changes(), context=CONTEXT)
    assert decision.paths == (f"{repository}/{directory}",)


def test_a_workspace_that_is_a_bare_repository(at: House) -> None:
    git(at.root, "init", "-q", "--bare")
    assert at.asks_to_write("hooks/pre-receive")
    assert at.asks_to_write("config")
    assert at.asks_to_write("refs/heads/main") == ""
