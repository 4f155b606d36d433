"""Tables of programs: options that an allow does not cover, wrappers, builtins, variables."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from toolstile_plugins.rules.shell.scanner import PLAIN_VARIABLE, Word

OPTIONS: Final[Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("options.toml").read_text(encoding="utf-8")
)
"""Options, and words as globs, that write a file or run a program, by program or subcommand."""

SCRIPTS: Final[Mapping[str, str]] = {
    # `w` writes files, and `e` runs programs; so only these scripts are known to do neither.
    "sed gsed": r"(?:[0-9]+|\$)?(?:,(?:[0-9]+|\$))?[pdq=]|/(?:[^/\\\n\[]|\\[^\n])*/[pd]"
    r"|s([/|,])(?:(?!\1)[^\\\n\[]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpI0-9]*",
    "tar bsdtar": r"[^IF]*",
    "pnpm yarn bun": "add|install|i|ls|list|info|why|audit|outdated|remove",
}
"""Patterns of the only first words besides options that an allow covers, by program."""

WRAPPERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("builtin", "coproc", "nohup"), "(?!)"),
    **dict.fromkeys(("command", "time"), "-p"),
    "env": r"-i|-0|-|-u\w+|--ignore-environment|--null|--unset=\w+|(?:-u|--unset) "
    r"|[A-Za-z_]\w*\+?=[^\0]*",
    "exec": "-[cl]+|-a ",
    "nice": r"-n?-?\d+|--adjustment=-?\d+|(?:-n|--adjustment) ",
    "setsid": "-[cfw]+|--ctty|--fork|--wait",
    "stdbuf": r"-[ioe]\w+|-[ioe] |--(?:input|output|error)(?:=\w+| )",
    "timeout": r"-[fpv]+|-[ks](?:[\w.]+| )|--foreground|--preserve-status|--verbose"
    r"|--(?:kill-after|signal)(?:=[^\0]+| )",
    "xargs": r"-[0rtx]+|-[nPLd](?:[^\0]+| )|-I\0?(?:\{\}|%)|--null|--no-run-if-empty"
    r"|--(?:max-args|max-procs|delimiter)(?:=[^\0]+| )",
}
"""Programs that run the command in their words, with their options; a blank is a further word."""

# These run some of their words, or a script from elsewhere or in another language.
_SCRIPTED: Final = (
    "su fish csh tcsh nu elvish xonsh cmd powershell pwsh nix-shell chroot unshare nsenter parallel"
    " at batch eval trap noglob nocorrect"
)
_ALWAYS: Final = (
    f"{_SCRIPTED} sudo doas ssh runuser systemd-run flock watch busybox toybox strace ltrace script"
    " entr npx pnpx bunx uvx wsl caffeinate ionice chrt taskset prlimit unbuffer catchsegv valgrind"
    " perf gdb dbus-run-session setpriv fakeroot proxychains torsocks xvfb-run start-stop-daemon"
    " annotate-output dotenv hyperfine pkexec gosu su-exec firejail dumb-init tini rlwrap torify"
    " numactl cgexec cpulimit sg capsh bwrap flatpak snap lxc mosh autossh eatmydata xterm"
    " ssh-agent setarch linux32 linux64 i386 x86_64 choom run-parts systemd-inhibit systemd-cat"
    " logsave runcon faketime chronic dbus-launch sem concurrently watchexec nodemon cross-env"
    " corepack uclampset trickle genv gnice gnohup gstdbuf gtimeout gxargs"
    " ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux.so.2 ld.so"
)
CARRIERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_ALWAYS.split(), ""),
    **dict.fromkeys(("docker", "podman", "nerdctl", "kubectl", "oc"), "run|exec|debug|create"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "exec|x|dlx|run|-c|--call"),
    **dict.fromkeys(("uv", "poetry", "pipenv", "hatch", "pdm", "rye", "conda"), "run|tool|x"),
    **dict.fromkeys(("mamba", "pixi", "direnv", "bundle", "vagrant"), "run|exec|ssh|-c"),
    **dict.fromkeys("pipx mise asdf nvm fnm volta rustup rbenv pyenv".split(), "run|exec|x"),
    **dict.fromkeys("lerna nx dotenvx doppler devbox foreman honcho".split(), "run|exec"),
    **dict.fromkeys(("nix", "cargo", "go"), "-c|--command|-?-exec|-?-toolexec"),
    **dict.fromkeys(("tmux", "screen"), "new.*|send.*|run.*|-dm|if.*|split.*|respawn.*"),
    **dict.fromkeys(("fd", "fdfind"), "-[xX]|--exec|--exec-batch"),
    "git": "foreach|run|-x|--exec|--extcmd|-c",
}
"""Programs that run some of their words, here or elsewhere; a deny looks at each of these.

The pattern is that of a word before these; without one, they begin behind the program.
"""

READ_ONCE: Final = frozenset(
    "sudo doas docker podman nerdctl kubectl oc npx pnpx bunx uvx uv poetry pipenv hatch pdm rye"
    " conda mamba pixi bundle cargo go fd fdfind direnv".split()
)
"""Programs among them that give the words to no shell, which would read them again."""

SHELLS: Final = frozenset("sh bash dash ash ksh mksh zsh rbash".split())

DECLARATIONS: Final = frozenset("export local readonly declare typeset unset".split())

_NEVER: Final = (
    f"{_SCRIPTED} source . alias unalias hash enable bind complete compgen compopt fc history"
    " mapfile readarray let getopts shopt suspend logout autoload zmodload emulate functions"
    " foreach repeat vared print sched zle - disable setopt unsetopt integer float nameref"
)
BUILTINS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_NEVER.split(), ""),
    "jobs": r"\$|-\w*x",
    "ssh": r"\A(?:-[^\0]*\0?)*[^\0-][^\0]*\Z",  # without a command it reads a script
    "sudo": r"(?:\A|\0)-[a-zA-Z]*[si]|(?:\A|\0)--(?:login|shell)",
    "npx": r"\A(?:-[^\0]*\0(?:[^-\0][^\0]*\0)?)*(?:-c|--call)",
    "printf": r"\A(?:-v|\$)",
    "read": rf"\A(?!(?:-[rs]+\0)*(?:-p\0[^\0$]*\0)?(?:{PLAIN_VARIABLE}(?:\0|\Z))+\Z)",
    "set": r"\A(?!(?:[-+][eux]*(?:o\0pipefail)?(?:\0|\Z))*\Z)",
    "wait": r"\$|-\w*p",
}
"""Builtins, and programs like them, with the words, joined by NUL, that make a line unknown."""

_PROTECTED: Final = re.compile(
    r"PATH|IFS|ENV|BASH_\w+|BASHOPTS|SHELLOPTS|PS[0-4]|PROMPT\w*|S?RANDOM|SECONDS|OPTIND|HISTCMD|LINENO|CDPATH|FPATH|ZDOTDIR|HOME|SHELL"
    r"|LD_\w+|DYLD_\w+|GIT_\w+|PYTHON\w*|PERL\w*|RUBY\w+|NODE_\w+|JAVA_TOOL_OPTIONS|GLOBIGNORE"
    r"|\w*_WRAPPER|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|LESS\w+|MAKEFLAGS|EXECIGNORE|GCONV_PATH"
)


def is_protected(name: str) -> bool:
    """Tell whether a variable changes which commands run.

    Example:
        >>> is_protected("PATH"), is_protected("GIT_PAGER"), is_protected("CI")
        (True, True, False)
    """
    return _PROTECTED.fullmatch(name) is not None


def uncovered(words: Sequence[Word], options: Mapping[str, Sequence[str]]) -> set[int]:
    """Return the places of words that write a file or run a program, by the tables."""
    if not words:
        return set()
    names = [_name_of(word) for word in words]
    keys = {names[0], *(f"{names[0]}:{name}" for name in names)}
    if names[0] in {"python", "coverage"} or names[0] in CARRIERS:
        keys.update(names)
    texts = [text for key, text in OPTIONS.items() if not keys.isdisjoint(key.split())]
    entries = [each for text in texts for each in text.split()]
    entries += (each for key in keys for each in options.get(key, ()))
    script = next((text for key, text in SCRIPTS.items() if names[0] in key.split()), None)
    if not entries and script is None:
        return set()
    places = range(1, len(words))
    ends = next((at for at in places if words[at].text == "--"), len(words))
    found = {
        at
        for at in places
        if words[at].may_be_option or _is_among(words[at], entries, is_operand=at > ends)
    }
    plain = next((at for at in places if not words[at].text.startswith("-")), None)
    if script is not None and plain is not None:
        word = words[plain]
        if word.head is not None or not re.fullmatch(script, word.text):
            found.add(plain)
    return found


def _name_of(word: Word) -> str:
    """Return the name of a program, without its directory and, if it is known, its version."""
    name = word.text.rpartition("/")[2].removesuffix(".exe")
    plain = re.sub(r"(?<=[a-z+])[-.0-9]+\Z", "", name)
    return plain if plain in CARRIERS or plain in " ".join(OPTIONS).split() else name


def _is_among(word: Word, entries: Iterable[str], *, is_operand: bool) -> bool:
    text = word.text
    if text == "--":
        return False
    # Behind "--", a script may begin with a dash: awk -- '--x{system("rm y")}'.
    if is_operand or not text.startswith("-"):
        others = [each for each in entries if not each.startswith("-")]
        if word.head is not None:
            fits = any("*" in each or each.startswith(word.head) for each in others)
        else:
            fits = any(fnmatchcase(text, each) for each in others)
        if fits or not text.startswith("-"):
            return fits
    name = text.partition("=")[0].replace("-", "").casefold()
    for each in entries:
        bare = each.replace("-", "").casefold()
        if not each.startswith("-"):
            found = each == "*"
        elif "*" in each:
            found = fnmatchcase(name, bare)
        elif len(each) == len("-o"):
            # Short options may stand together in a word.
            found = not text.startswith("--") and each[1] in text
        else:
            # Programs may take the beginning of a long option, with two dashes, for the whole.
            is_long = each.startswith("--") and text.startswith("--")
            found = name == bare or (is_long and bare.startswith(name))
        if found:
            return True
    return False
