"""The list of protected paths: files that a person's programs run or obey without being asked.

The project's own code, such as a `Makefile` or `conftest.py`, is not among them: a person who runs
it asks for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from toolstile_plugins.vfs.glob import alternatives

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
"""The paths for which a look at contents decides, in words."""


@cache
def protected_by() -> re.Pattern[str]:
    """Return the expression of the list, of which the number of the last group tells the program.

    Some file systems take `.GIT` for `.git`, so the case of letters does not matter.
    """
    groups = ("|".join(map(_expression, _expanded(globs))) for globs in PROTECTED.values())
    choice = "|".join(f"({group})" for group in groups)
    return re.compile(f"(?:^|/)(?:{choice})$", re.IGNORECASE | re.DOTALL)


@cache
def obeyed_by_git(*, is_link: bool) -> re.Pattern[str]:
    """Return the expression of the files on the list within a repository, whatever its name.

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
