"""The policy that asks a person before a call changes files that other programs run or obey."""

# ruff: noqa: PTH111, PTH112, PTH113, PTH114, PTH118, PTH120 - texts: many names are looked up

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final, cast

from toolstile_hookspecs import PolicyDecision, Tool, ToolContext
from toolstile_hookspecs.services.workspace import FileChange, FileChanges
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.paths import Pattern, alternatives

# --- The list


_OF_GIT: Final = (
    "{hooks/**,branches/**,remotes/**,config,config.worktree,commondir,gitdir,info/attributes,"
    "info/grafts,objects/info/alternates,sequencer/todo,sequencer/opts,rebase-*/git-rebase-todo,"
    "rebase-*/author-script,rebase-*/strategy*}"
)
"""The files that git obeys in a repository, such as the commands of a rebase that stopped."""

PROTECTED: Final[Mapping[str, str]] = {
    "git": f"""
        **/.git **/.git/{_OF_GIT} **/.gitconfig **/.config/git/**
        **/.git/{{modules,worktrees}}/**/{_OF_GIT}""",
    "git hooks": """
        **/.husky/** **/{.pre-commit-config.yaml,.overcommit.yml}
        **/{,.}lefthook{,-local}.{yml,yaml,toml,json}""",
    "Mercurial and Jujutsu": "**/.hg/hgrc **/.jj/repo/config.toml",
    "a shell": """
        **/.envrc **/{,.}mise{,.*}.toml **/{.mise,.config/mise,.config/fish}/** **/.tool-versions
        **/.{profile,login,logout,inputrc} **/.bash{rc,_profile,_login,_logout,_aliases}
        **/.z{shrc,shenv,profile,login,logout} **/.{ksh,mksh,csh,tcsh}rc **/*profile.ps1""",
    "package managers": """
        **/.{npmrc,yarnrc,yarnrc.yml,pnpmfile.cjs,pnp.cjs} **/.yarn/{plugins,releases}/**
        **/pip.{conf,ini} **/bunfig.toml""",
    "interpreters": "**/.{Rprofile,Renviron,irbrc,pryrc}",
    "editors and debuggers": """
        **/.{vscode,idea,zed,devcontainer,vim,emacs.d,config/nvim}/** **/*.code-workspace
        **/.devcontainer.json **/{.,_}{,g}vimrc **/{.,_}exrc **/.nvim{.lua,rc}
        **/.dir-locals{,-2}.el **/.gdb{init,earlyinit} **/.lldbinit{,-*}""",
    "agents": """
        **/.mcp.json **/.{claude,cursor,codex,gemini,windsurf}/** **/.{cursor,windsurf,cline}rules
        **/.{amazonq,clinerules,continue,junie,kilocode,kiro,opencode,roo}/** **/opencode.json{,c}
        **/{AGENTS,AGENTS.override,CLAUDE,CLAUDE.local,GEMINI}.md
        **/.github/{instructions/**,copilot-instructions.md} **/.aider.conf.yml""",
    "toolstile": "**/toolstile.toml",
    "CI": """
        **/.{github,gitea,forgejo}/{workflows,actions}/** **/Jenkinsfile
        **/.{circleci,buildkite,woodpecker}/** **/{,.}{appveyor,azure-pipelines}.yml
        **/{.gitlab-ci,.travis,.drone,.woodpecker,.cirrus,bitbucket-pipelines}.yml""",
}
"""The globs, by the programs that run or obey the files."""

BY_CONTENT: Final = (
    "**/.gitattributes that names a filter, [tool.toolstile] of **/pyproject.toml, the "
    "plugin_files of toolstile.toml, the folder of core.hooksPath, files and programs that git's "
    "configuration names, the same files in bare and nested repositories, programs and start-up "
    "files of a .venv, venv or node_modules that was there before the session"
)
"""The paths that are protected by their contents, in words."""


@cache
def protected_by() -> re.Pattern[str]:
    """Return the expression of the list; the number of its last group stands for the program.

    It ignores case, because some file systems take `.GIT` for `.git`.
    """
    groups = ("|".join(map(_expression, _expanded(globs))) for globs in PROTECTED.values())
    choice = "|".join(f"({group})" for group in groups)
    return re.compile(f"(?:^|/)(?:{choice})$", re.IGNORECASE | re.DOTALL)


@cache
def files_obeyed_by_git(*, is_link: bool) -> re.Pattern[str]:
    """Return the expression of the files on the list within a repository of any name.

    A link may also stand for the directory of such files.
    """
    files = list(alternatives(_OF_GIT))
    above = [file.rsplit("/", 1)[0] for file in files if "/" in file] if is_link else []
    return re.compile("|".join(map(_expression, files + above)), re.IGNORECASE | re.DOTALL)


@cache
def folders() -> frozenset[str]:
    """Return the ends of the paths of directories that hold protected files."""
    split = [glob.split("/") for glob in _expanded(" ".join(PROTECTED.values()))]
    found = {"/".join(names[:end]) for names in split for end in range(1, len(names))}
    return frozenset(each for each in found if "*" not in each)


@cache
def literal_paths() -> frozenset[str]:
    """Return the ends of paths on the list, and of their directories, that hold no wildcard."""
    globs = {glob for glob in _expanded(" ".join(PROTECTED.values())) if "*" not in glob}
    return folders() | globs - {".git"}


def _expanded(globs: str) -> Iterator[str]:
    for glob in globs.split():
        yield from (each.removeprefix("**/") for each in alternatives(glob))


def _expression(glob: str) -> str:
    written = re.escape(glob).replace(r"/\*\*/", "/(?:.*/)?")
    return written.replace(r"/\*\*", "/.*").replace(r"\*", "[^/]*")


# --- Git repositories


Entry = tuple[str, str, str, str]
"""Section, subsection, key and value of a configuration."""

_SECTION: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?: "([^"\\\n]*)")?\]')
_ENTRY: Final = re.compile(r"[\t ]*([A-Za-z][A-Za-z0-9-]*)[\t ]*(?:=[\t ]*([^\\\n]*))?")
_PLAIN: Final = re.compile(r"[\w./@+-]+", re.ASCII)
_LINE: Final = re.compile(
    r'^[\t ]*(?:\[[\w.-]+(?:[\t ]+"(?:\\.|[^"\\\n])*")?\])?[\t ]*([\w-]+)[\t ]*=(.*)', re.MULTILINE
)
_PIECE: Final = re.compile(r'[;#].*|"((?:\\.|[^"\\])*)"?|(\\.)|([^"\\;#]+)')
_TREES: Final = frozenset({"hookspath", "templatedir"})
_FILES: Final = re.compile(
    r"path|attributesfile|fsmonitor|askpass|external|clean|smudge|process|textconv|driver|vcs|"
    r"\w*(?:command|cmd|pager|editor|filter|program|helper|hook|proxy|pack)"
)
_BETWEEN: Final = re.compile(r"[\s;&|(){}<>'\"`=]+")
_MOST_CONFIGURATIONS: Final = 64
_MOST_FOLDERS: Final = 50_000


# --- Repositories


def obeyed_by_git(changes: FileChanges, path: str) -> bool:
    """Return whether a change makes a directory a repository, or is of a file that git obeys there.

    The directory has another name than `.git`: it is a bare repository, belongs to a submodule or
    a linked worktree, or a command has renamed it.
    """

    def is_repository(directory: str, *, before: bool) -> bool:
        def has(name: str) -> bool:
            return changes.stat(paths.join(directory, name), before) is not None

        return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))

    after = changes.stat(path, False)  # noqa: FBT003 - the contract's
    obeyed = files_obeyed_by_git(is_link=after is not None and after.kind == "link")
    directory, name = paths.split(path)
    if name in {"HEAD", "commondir", "objects", "refs"} and (
        is_repository(directory, before=False) and not is_repository(directory, before=True)
    ):
        return True
    names = path.split("/")
    places = [at for at in range(len(names)) if obeyed.fullmatch("/".join(names[at:]))]
    return any(
        is_repository("/".join(names[:at]), before=before)
        for at in places
        for before in (True, False)
    )


def named_by_git(directory: str) -> Iterator[str]:
    """Yield the files and folders that the configuration of a repository names.

    These are the hooks folder, included files, and programs such as filters.
    """
    git, common = _directories_of(directory)
    if not os.path.isdir(git):
        git = common = directory
    if not os.path.isfile(f"{git}/HEAD"):
        return
    home = os.path.expanduser("~")
    ours = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = [f"{common}/config", f"{git}/config.worktree", "/etc/gitconfig"]
    files += [f"{ours}/git/config", f"{home}/.gitconfig"]
    for file in files:
        for key, value in _settings(file):
            is_included = key == "path"
            beside = os.path.dirname(file) if is_included else directory
            named = os.path.join(beside, os.path.expanduser(value))
            if is_included and named not in files and len(files) < _MOST_CONFIGURATIONS:
                files.append(named)
            if key in _TREES:
                yield named
            elif key != "merge":
                words = _BETWEEN.split(value.removeprefix("!"))
                whole = [value, words[0]] if _FILES.fullmatch(key) else []
                names = [*whole, *(each for each in words if "/" in each)]
                paths_of = (os.path.join(beside, os.path.expanduser(each)) for each in names)
                # Without directories, because a command does not run their files.
                yield from (each for each in paths_of if not os.path.isdir(each))


class Repositories:
    """The working trees and bare repositories in a directory, at any depth.

    The search takes one percent of the time, so it may find a new one some seconds late.
    """

    def __init__(self) -> None:
        self._found: list[str] = []
        self._until = 0.0

    def __call__(self, root: str) -> list[str]:
        if (started := monotonic()) >= self._until:
            found: list[str] = []
            for place, folders, names in islice(os.walk(root), _MOST_FOLDERS):
                if ".git" in folders or ".git" in names or ("HEAD" in names and "refs" in folders):
                    found.append(place)
                folders[:] = [each for each in folders if each != ".git"]
            self._found, self._until = found, monotonic() + 99 * (monotonic() - started)
        return self._found


def _settings(file: str) -> Iterator[tuple[str, str]]:
    text = text_of(file)
    # Read both ways, because git does not continue a comment: a joined line may hide the next.
    for each in (text, text.replace("\\\n", "")) if "\\\n" in text else (text,):
        for key, value in _LINE.findall(each):
            pieces = "".join("".join(piece) for piece in _PIECE.findall(value))
            yield key.lower(), re.sub(r"\\(.)", r"\1", pieces).strip()


def _directories_of(directory: str) -> tuple[str, str]:
    """Return the git directory of a working tree, and the one of its whole repository."""
    git = f"{directory}/.git"
    if (link := text_of(git)).startswith("gitdir:"):
        git = os.path.join(directory, link.removeprefix("gitdir:").strip())
    return git, os.path.join(git, text_of(f"{git}/commondir").strip())


def text_of(file: str) -> str:
    """Return the text of a file; an empty one for anything else."""
    with suppress(OSError):
        # Only a regular file, because reading a FIFO may never end.
        return Path(file).read_text("utf-8", "replace") if os.path.isfile(file) else ""
    return ""


# --- Configuration


def is_harmless(before: bytes, after: bytes) -> bool:
    """Return whether a configuration changed only in the branches that follow known remotes.

    Every line in another form than git's own counts as a change.
    """
    old, new = _entries(before), _entries(after)
    if old is None or new is None:
        return False
    remotes = {name for section, name, key, _ in old if (section, key) == ("remote", "url")}

    def is_known(entry: Entry) -> bool:
        *_, key, value = entry
        if _PLAIN.fullmatch(value) is None:
            return False
        return value in remotes if key == "remote" else value.startswith("refs/heads/")

    return [each for each in old if not _follows(each)] == [
        each for each in new if not _follows(each) or not (each in old or is_known(each))
    ]


def _follows(entry: Entry) -> bool:
    section, name, key, _ = entry
    return section == "branch" and name != "" and key in {"remote", "merge"}


def _entries(content: bytes) -> list[Entry] | None:
    """Return the entries in order; None unless every line has git's own form."""
    found: list[Entry] = []
    section = name = ""
    for line in content.decode("latin-1").split("\n"):
        if not line.strip("\t ") or line.lstrip("\t ").startswith(("#", ";")):
            if line.endswith("\\"):
                return None
            continue
        if (head := _SECTION.fullmatch(line)) is not None:
            section, name = head[1].lower(), head[2] or ""
        elif (entry := _ENTRY.fullmatch(line)) is not None and section:
            # No value means true, an empty one false.
            value = "\n" if entry[2] is None else entry[2].rstrip("\t ")
            found.append((section, name, entry[1].lower(), value))
        else:
            return None
    return found


def outside_repository(root: Path) -> Path | None:
    """Return the git directory outside of a workspace that the workspace needs, or None.

    For a linked worktree it is the directory of the whole repository, which has the commits.
    """
    with suppress(OSError, ValueError):
        found = Path(_directories_of(str(root))[1]).resolve()
        return None if found.is_relative_to(root.resolve()) else found
    return None


# --- The policy


_MOST_SHOWN: Final = 20
_MOST_FILES: Final = 50_000
_MANY: Final = 1000
_FILTER: Final = re.compile(rb"[ \t\r\]]filter(?:[ \t\r=]|$)")
_ENVIRONMENTS: Final = (".venv", "venv", "node_modules")
_ENVIRONMENT: Final = re.compile(r"(?is)(?:.*?/)?(?:\.venv|venv|node_modules)(?=/|$)")
_STARTS: Final = re.compile(
    r"(?is)(?:.*/)?(?:[^/]*\.pth|(?:site|user)customize\.py|pyvenv\.cfg|(?:bin|Scripts|\.bin)/[^/]*)"
)
_FOLDERS: Final = (None, "directory")
_READ: Final = ("pyproject.toml", ".gitattributes")


class ProtectedPaths:
    """Asks a person about changes of files that the person's programs run or obey later.

    `protected` are globs of more such files, `unprotected` of files that need no question.
    """

    name: Final = "protected paths"

    def __init__(self, protected: Sequence[str] = (), unprotected: Sequence[str] = ()) -> None:
        self._protected = [Pattern(glob) for glob in protected]
        self._unprotected = [Pattern(glob) for glob in unprotected]
        self._environments: dict[str, set[str]] = {}
        self._repositories = Repositories()
        self._made: tuple[str, set[str]] = ("", set())

    def keep(self) -> None:
        """Note, after the commit, that the session has made the environments of the call."""
        session, made = self._made
        if made:
            self._environments.setdefault(session, set()).update(made)

    def check_changes(
        self,
        tool: Tool[Any, Any],  # noqa: ARG002 - whatever the tool
        changes: FileChanges,
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        session = context.session.id
        known = self._environments.get(session, set())
        look = _Look(changes, self._protected, known, self._repositories)
        self._made = session, look.made
        found: dict[str, str] = {}
        counts = Counter[str]()
        for change in changes:
            why = look.why(change)
            if why is None or any(each.matches(change.path) for each in self._unprotected):
                continue
            if why.endswith("/"):
                counts[why] += 1
            else:
                found[change.path] = why
        settings = [f'"{path}"' for path in (*found, *(f"{folder}**" for folder in counts))]
        if not settings:
            return PolicyDecision.allow()
        folded = [
            f"{folder} (executables and start-up files: {counts[folder]})" for folder in counts
        ]
        shown = [*folded, *(f"{path} ({why})" for path, why in found.items())]
        more = f", and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
        return PolicyDecision.ask(
            "It changes files that your programs run or obey without being asked: "
            f"{', '.join(shown[:_MOST_SHOWN])}{more}. To allow that without a question, add to "
            f"[plugins.vfs]: unprotected = [{', '.join(settings[:_MOST_SHOWN])}]",
            by_person=True,
            paths=(*folded, *found),
        )


class _Look:
    """The check of one call's changes; `made` are the environments that it makes."""

    def __init__(
        self,
        changes: FileChanges,
        protected: Sequence[Pattern],
        known: set[str],
        repositories: Repositories,
    ) -> None:
        self._changes = changes
        self._protected = protected
        self._known = known
        named = dict(_named(changes, repositories))
        self._named = {at: why for at, why in named.items() if not why.endswith("/")}
        self._linked = {at: link for at, link in named.items() if link.endswith("/")}
        self.made: set[str] = set()

    def why(self, change: FileChange) -> str | None:
        """Return the program that runs or obeys the path, its environment with a slash, or None."""
        path = change.path
        name = paths.split(path)[1].lower()
        before, after = change.before, change.after
        kinds = None if before is None else before.kind, None if after is None else after.kind
        is_link = "link" in kinds
        spellings = (path, f"{path}/-") if is_link else (path,)
        if any(each.matches(spelt) for each in self._protected for spelt in spellings):
            return "protected in [plugins.vfs]"
        if name == "config" and kinds == ("file", "file") and is_harmless(*self._contents(path)):
            return None
        if obeyed_by_git(self._changes, path) or (name == ".git" and kinds[0] != kinds[1]):
            return "git"
        environment = self._environment(change)
        if set(kinds).issubset(_FOLDERS):
            return None
        return (
            self._listed(path, name, is_link=is_link)
            or environment
            or self._by_name(path, is_link=is_link)
            or (self._by_inode(path) if kinds[0] == "file" else None)
        )

    def _listed(self, path: str, name: str, *, is_link: bool) -> str | None:
        if (found := protected_by().search(path)) is not None:
            return [*PROTECTED][(found.lastindex or 1) - 1]
        if is_link and (
            name == ".gitattributes"
            or any(f"/{path.lower()}".endswith(f"/{each}") for each in folders())
        ):
            return "a link to such files"
        before, after = self._contents(path) if name in _READ else (b"", b"")
        if name == "pyproject.toml":
            return "toolstile" if _own_table(before) != _own_table(after) else None
        return "git" if _filters(after) not in ([], _filters(before)) else None

    def _contents(self, path: str) -> tuple[bytes, bytes]:
        before, after = (self._changes.read(path, before) for before in (True, False))
        return before or b"", after or b""

    def _environment(self, change: FileChange) -> str | None:
        """Return the environment whose program or start-up file it is, if it was there before."""
        path = change.path
        for at in paths.ancestors(path):
            if at in self._linked:
                path = f"{self._linked[at]}{path[len(at) + 1 :]}"
        if (found := _ENVIRONMENT.match(path)) is None:
            return None
        root, inside = found[0], path[found.end() + 1 :]
        if self._changes.stat(root, True) is None:  # noqa: FBT003 - the contract's
            self.made.add(root)
            return None
        states = [each for each in (change.before, change.after) if each is not None]
        runs = any(each.kind == "file" and (each.mode or 0) & 0o111 for each in states)
        is_free = root in self._known or (inside and not runs and not _STARTS.fullmatch(inside))
        return None if is_free else f"{root}/"

    def _by_name(self, path: str, *, is_link: bool) -> str | None:
        for at in (path, *paths.ancestors(path), ""):
            if (why := self._named.get(at)) is not None:
                return why
        beneath = self._named.items() if is_link else ()
        return next((why for at, why in beneath if paths.is_within(at, path)), None)

    def _by_inode(self, path: str) -> str | None:
        root = self._changes.root
        with suppress(OSError):
            if root and (status := os.lstat(f"{root}/{path}")).st_nlink > 1:
                return self._inodes.get((status.st_dev, status.st_ino))
        return None

    @cached_property
    def _inodes(self) -> dict[tuple[int, int], str]:
        """The protected files by inode; of a very large tree only the first ones."""
        root, found = self._changes.root or "", dict[tuple[int, int], str]()
        walk = (f"{place}/{name}" for place, _, names in os.walk(root) for name in names)
        for file in islice(walk, _MOST_FILES):
            if protected_by().search(path := file[len(root) + 1 :]):
                with suppress(OSError):
                    status = os.lstat(file)
                    found[status.st_dev, status.st_ino] = f"the same file as {path}"
        return found


# --- Paths of other names


def _named(changes: FileChanges, repositories: Repositories) -> Iterator[tuple[str, str]]:
    """Yield the targets of protected links, and the paths in git's and our configuration.

    Each has the reason; the target of a link to an environment has the link with a slash.
    """
    root = changes.root
    if root is None:
        return
    # The directories above the changed paths that existed before the call.
    new = {each.path for each in changes if each.before is None}
    folders_above = {"", *(at for each in changes for at in paths.ancestors(each.path))} - new
    above = {f"{root}/{each}" if each else root: each for each in folders_above}
    for real, directory in above.items():
        with suppress(OSError), os.scandir(real) as entries:
            there = {entry.name for entry in islice(entries, _MANY)}
            for name in (*literal_paths(), *_ENVIRONMENTS):
                # Faster than a look at each name, unless the directory is large.
                if (name.partition("/")[0] in there or len(there) == _MANY) and os.path.islink(
                    link := f"{real}/{name}"
                ):
                    path = paths.join(directory, name)
                    is_one = name in _ENVIRONMENTS
                    yield from _within(root, link, f"{path}/" if is_one else f"{path} leads to it")
    for place in dict.fromkeys([*above, *repositories(root), *map(str, Path(root).parents)]):
        yield from _configured(root, place)


def _configured(root: str, directory: str) -> Iterator[tuple[str, str]]:
    for named in named_by_git(directory):
        yield from _within(root, named, "git")
    for name in ("toolstile.toml", "pyproject.toml"):
        with suppress(OSError):
            content = Path(directory, name).read_bytes()
            if b"plugin_files" not in content:
                continue
            table = _own_table(content, is_whole=name == "toolstile.toml")
            files = table.get("plugin_files") if isinstance(table, dict) else None
            for file in cast("list[object]", files) if isinstance(files, list) else ():
                yield from _within(root, os.path.join(directory, str(file)), "toolstile")


def _within(root: str, named: str, why: str) -> Iterator[tuple[str, str]]:
    # The link itself, too, because other files can take its name.
    for each in {os.path.realpath(named), os.path.normpath(named)}:
        if f"{each}/".startswith(f"{root}/"):
            yield each[len(root) + 1 :], why


def _own_table(content: bytes, *, is_whole: bool = False) -> dict[str, Any] | bytes:
    """Return our settings in a file; the whole file if it cannot be parsed."""
    try:
        table = tomllib.loads(content.decode())
        return table if is_whole else table.get("tool", {}).get("toolstile", {})
    except (ValueError, AttributeError):
        return content if b"toolstile" in content else {}


def _filters(content: bytes) -> list[bytes]:
    # To git, a carriage return ends no line: it is a space.
    return [line for line in content.split(b"\n") if _FILTER.search(line)]
