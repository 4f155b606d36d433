"""The policy `command`, and `commands()` in rules: patterns, precedence, presets, and displays."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_cli.main import main
from toolstile_hookspecs import ConfigurationError, DefinitionError, ToolCall, tool
from toolstile_plugins.rules import CommandPolicy
from toolstile_plugins.rules.expressions import compiled
from toolstile_plugins.rules.helpers import EvaluationFailed
from toolstile_plugins.rules.shell import lines
from toolstile_plugins.rules.shell.lines import listed, parsed
from toolstile_plugins.rules.shell.policy import strictest

HERE = Path(__file__).parent
HARMLESS = (HERE / "harmless.txt").read_text().splitlines()


def shown(line: str) -> list[str]:
    read = parsed(line)
    assert not read.unknown
    return [each.shown for each in read.commands if each.role != "carried"]


def verdict(line: str | list[str], **fields: Any) -> str:
    return strictest(CommandPolicy(**fields).judge(line))


# --- Reading


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("a x && b || c; d & e | f |& g\nh", ["a x", "b", "c", "d", "e", "f", "g", "h"]),
        ('a $(b `c`) "$(d)" <(e) >(f)', ["c", "b `c`", "d", "e", "f", "a $(b `c`) $(d) <(e) >(f)"]),
        ("(a; { b; }); ! c", ["a", "b", "c"]),
        ("f() { a; }; function g { b; }; f", ["a", "b", "f"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("for x in $(a) *.py; do b; done", ["a", "b"]),
        ("case $(a) in x|y) b;; (z) c;& *) d; esac", ["a", "b", "c", "d"]),
        ("echo $(case x in x) a;; esac)", ["a", "echo $(case x in x) a;; esac)"]),
        ("cat <<E | a\n$(b)\nE\nc", ["cat", "a", "b", "c"]),
        ("cat <<'E' && a\n$(b)\nE", ["cat", "a"]),
        ("cat <<-E\n\t$x\n\tE\na", ["cat", "a"]),
        ("A=1 B='x y' a -x", ["A=1 B=x y a -x"]),
        ("a >f 2>>g <h 2>&1 3<&- &>i", ["a > f >> g < h &> i"]),
        ("a && b >f c", ["a", "b c > f"]),
        ("{ a; b; } >f", ["a", "b", "> f"]),
        ("a 'b c' \"d\"e\\ f \\; '#' # comment", ["a b c de f ; #"]),
        ("a \\\n  b", ["a b"]),
        (
            "timeout -k 1 9 nice -n 5 a x >f",
            ["timeout -k 1 9 nice -n 5 a x", "nice -n 5 a x", "a x > f"],
        ),
        ("sh -c 'a; b'", ["sh -c a; b", "a", "b"]),
        ("find . -exec a {} +", ["find . -exec a {} +", "a {}"]),
        ('[ -n "$x" ] && [[ $x == a* ]] || a', ["[ -n $x ]", "a"]),
        ('export A="$(a)"', ["a", "export A=$(a)"]),
        ("command -v a", ["command -v a"]),
        ("git commit -m 'grüße 🎉' é", ["git commit -m grüße 🎉 é"]),
    ],
)
def test_the_commands_of_a_line(line, commands):
    assert sorted(shown(line)) == sorted(commands)


@pytest.mark.parametrize(
    "program",
    [
        *("sudo", "ssh host", "docker run image", "kubectl exec p --", "npx", "npx -y", "npx -p a"),
        *("npm exec --", "npm exec", "npm x --", "pnpm dlx", "pnpm exec", "yarn dlx", "bunx"),
        *("ionice -c 3", "ionice -c3 nice", "systemd-run --user --wait", "setarch -R", "linux64"),
        *("corepack pnpm exec", "pipx run", "mise x --", "pyenv exec", "rustup run stable"),
        *("nvm exec 22", "dotenvx run --", "npx lerna exec --", "gtimeout 5", "uclampset -m 1"),
    ],
)
def test_a_program_that_runs_some_of_its_words_is_looked_through(program):
    found = parsed(f"{program} rm -rf x").commands
    assert "rm -rf x" in [each.shown for each in found if each.role == "carried"]


def test_a_list_is_one_command_that_no_shell_reads():
    read = listed(["git", "commit", "-m", "a; rm $(x) *"])
    assert [each.shown for each in read.commands] == ["git commit -m a; rm $(x) *"]
    assert not read.unknown
    assert [each.shown for each in listed(["sh", "-c", "a; b"]).commands][1:] == ["a", "b"]


@pytest.mark.parametrize(
    "line",
    [
        *("eval a", "source a", ". a", "trap a EXIT", "alias a=b", "$X", '"$X" a', "a* b"),
        *("PATH=/tmp a", "IFS=x", "LD_PRELOAD=x a", "GIT_DIR=x a", "PYTHONPATH=x a", "ENV=x a"),
        *("cat <<-E\n\t$(a)\n\tE", 'echo "${x:-`a`}"', "echo `a \\`b\\``", "can\\\nary", "a\r"),
        *("a \x0b", "a \u00a0b", "a \u202eb", "a 'b", "a (b)", "((a))", "echo $((a))", "a[$(b)]=1"),
        *(
            "[ -v 'a[$(b)]' ]",
            "[[ x -eq y ]]",
            "[[ x == y || rm == z ]]",
            "[[ -f x && rm ]]",
            "[ -t 'a[$(b)]' ]",
            '[[ -n "${x@P}" ]]',
            '[ "$x" "$y" ]',
            '[ "$x" -eq 1 ]',
            "let x=1",
            "x=(a b)",
            "${x@P}",
            "echo ${!x}",
        ),
        *(
            "echo a | sh",
            "bash -s",
            "sh /dev/stdin",
            "bash <(a)",
            "sh -c $X",
            "env -S a",
            "time { a; }",
        ),
        *(
            "a &>b c",
            "xargs -I x x",
            "ssh host",
            "ssh host 'a (b'",
            "sudo $X",
            "npx -c 'rm x'",
            "npx -p a --call 'rm x'",
            "npm exec -c 'rm (x'",
        ),
    ],
)
def test_a_line_that_may_run_other_commands_is_unknown(line):
    assert parsed(line).unknown
    assert verdict(line, allow=["*"]) == "ask"
    assert verdict(line, allow=["*"], otherwise="deny") == "deny"


def test_a_command_in_an_unknown_line_is_denied_all_the_same():
    assert verdict("eval x; rm y", allow=["*"], deny=["rm *"]) == "deny"
    assert verdict("eval 'rm y'", allow=["*"], deny=["rm *"]) == "deny"


@pytest.mark.parametrize(
    "line",
    [
        *("sudo env " * 49 + "x", "echo " + "a " * 16_000, "if " * 3000 + "a", "(" * 3000),
        *("x;" * 16_000, "a && " * 6000 + "a", 'echo "$(' * 39 + "a" + ')"' * 39, "`" * 4000),
        *("sh -c " * 90 + "x", "echo " + "{" * 9000, "a" * 32_000, "[[ " * 5000, "<<E " * 5000),
    ],
)
def test_a_strange_line_takes_no_time(line):
    policy, begin = CommandPolicy(preset="developer"), time.process_time()
    policy.judge(line)
    assert time.process_time() - begin < 5


# --- Patterns


@pytest.mark.parametrize(
    ("allow", "line", "expected"),
    [
        ("git status", "git status", "allow"),
        ("git status", "git status -s", "ask"),
        ("git status", "git", "ask"),
        ("git diff *", "git diff", "allow"),
        ("git diff *", "git diff a b", "allow"),
        ("git diff *", "git  'diff' a", "allow"),
        ("git diff *", "git difftool", "ask"),
        ("git diff *", "/tmp/git diff", "ask"),
        ("git diff *", "./git diff", "ask"),
        ("ls src/*", "ls src/a", "allow"),
        ("ls src/*", "ls src/../../etc", "ask"),
        ("ls src/*", "ls $X", "ask"),
        ("ls *", "ls $X", "allow"),
        ("* --version", "a --version", "allow"),
        ("ls *", "ls > f", "ask"),
        ("ls *", "ls >> f", "ask"),
        ("ls *", "ls > /dev/null 2>&1", "allow"),
        ("ls *", "ls < f", "allow"),
        ("ls *", "ls < /dev/tcp/a/80", "ask"),
        ("ls *", "A=1 ls", "ask"),
        ("ls *", "{ ls; } > f", "ask"),
        ("ls *", "for f in a; do ls; done < f", "allow"),
        ("ls * > build/*", "ls a > build/b", "allow"),
        ("ls * > build/*", "ls a >> build/b", "allow"),
        ("ls * > build/*", "ls a > build/../b", "ask"),
        ("ls * > build/*", "ls a > build/$X", "ask"),
        ("ls * >> log", "ls > log", "ask"),
        ("CI=* npm test", "CI=1 npm test", "allow"),
        ("CI=* npm test", "npm test", "allow"),
        ("CI=* npm test", "DEBUG=1 npm test", "ask"),
        ("export CI=*", "export CI=1", "allow"),
        ("export *", "export CI=1", "ask"),
        ("sort *", "sort -uo f g", "ask"),
        ("sort -o *", "sort -o f g", "allow"),
        ("split *", "split --filter=rm f", "ask"),
        ("awk *", "awk -F: -- '{print $1}' f", "allow"),
        ("git * --output=*", "git diff --output=x", "allow"),
        ("git * --output=*", "git diff --output=$X", "ask"),
        ("find *", "find . -name x", "allow"),
        ("find *", "find . -delete", "ask"),
        ("find * -delete", "find . -delete", "allow"),
        ("npm run test", "npm run test", "allow"),
        ("npm *", "npm run test", "ask"),
        ("python3.12 *", "python3.12 -c x", "ask"),
        ("python -m pytest *", "python -m pytest -p x", "ask"),
        ("make *", "make -j4 all", "allow"),
        ("make *", "make CC=x", "ask"),
        ("grep *", "find . -name x | xargs grep y", "ask"),
        ("*", "find . -name x | xargs grep y", "allow"),
        ("git commit *", "git commit -m \"$(cat <<'E'\nFix (it); $(x)\n\nE\n)\"", "ask"),
        ("*", "git commit -m \"$(cat <<'E'\nFix (it); $(x)\n\nE\n)\"", "allow"),
        ("*", 'git commit -m "$(cat <<E\n$X\nE\n)"', "ask"),
        ("*", "cat() { a; }; git diff \"$(cat <<'E'\nx\nE\n)\"", "ask"),
        ("*", "git diff \"$(cat <<'E'\n--output=x\nE\n)\"", "ask"),
        ("ls *", "timeout 5 ls", "allow"),
        ("ls *", "/usr/bin/env ls", "allow"),
        ("ls *", "./env ls", "ask"),
        ("ls *", "/tmp/sh -c ls", "ask"),
        ("ls *", "sudo ls", "ask"),
        ("ls *", "sh -c 'ls; ls'", "allow"),
        ("ls *", "sh -c 'ls' > f", "ask"),
    ],
)
def test_an_allow_covers_the_words_of_a_command(allow, line, expected):
    assert verdict(line, allow=[allow]) == expected


@pytest.mark.parametrize(
    ("deny", "line", "expected"),
    [
        ("rm *", "rm -rf x", "deny"),
        ("rm *", "/bin/rm x", "deny"),
        ("rm *", "\\rm x", "deny"),
        ("rm *", "RM x", "deny"),
        ("rm *", "ls; (timeout 5 env A=1 rm x)", "deny"),
        ("rm *", "sudo -u x rm y", "deny"),
        ("rm *", "ssh host 'ls; rm y'", "deny"),
        ("rm *", "docker run -v a:b image sh -c 'rm y'", "deny"),
        ("rm *", "git submodule foreach rm x", "deny"),
        ("rm *", "setarch -R rm x", "deny"),
        ("rm *", "/lib64/ld-linux-x86-64.so.2 /bin/rm x", "deny"),
        ("rm *", "git rm x", "allow"),
        ("rm *", "docker rm x", "allow"),
        ("rm *", "echo rm x", "allow"),
        ("git push *", "git -C x push origin", "deny"),
        ("git push *", "git --no-pager push", "deny"),
        ("git push *", "git stash push", "allow"),
        ("git push --force *", "git push origin main --force", "deny"),
        ("git push --force *", "git push origin --forc", "deny"),
        ("git push --force *", "git push origin", "allow"),
        ("rm -rf *", "rm -fr x", "deny"),
        ("rm -rf *", "rm -r x -f", "deny"),
        ("rm -rf *", "rm -r x", "allow"),
        ("git push *", "git $X", "ask"),
        ("git push *", "git push $X", "deny"),
        ("* > /etc/*", "ls > /etc/x", "deny"),
        ("* > /etc/*", "ls > /tmp/../etc/x", "deny"),
        ("* > /etc/*", "ls > x", "allow"),
        ("A=*", "A=1 ls", "deny"),
    ],
)
def test_a_deny_looks_behind_spellings(deny, line, expected):
    found = verdict(line, allow=["*", "* > *", "git *", "A=* *"], deny=[deny])
    assert found == expected or (expected == "allow" and "-" in line and found == "ask")


def test_deny_wins_over_ask_and_ask_over_allow():
    fields = {"allow": ["git *"], "ask": ["git push *"], "deny": ["git push --force *"]}
    assert verdict("git log", **fields) == "allow"
    assert verdict("git log; git push", **fields) == "ask"
    assert verdict("git push; git push --force; git log", **fields) == "deny"


@pytest.mark.parametrize("wrong", [{}, {"allow": ["a 'b"]}, {"deny": [" "]}, {"preset": "none"}])
def test_wrong_patterns_are_refused(wrong):
    with pytest.raises(DefinitionError, match="CommandPolicy"):
        CommandPolicy(**wrong)


def test_without_its_library_the_policy_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    lines._grammar.cache_clear()
    parsed.cache_clear()
    with pytest.raises(DefinitionError, match="commands"):
        CommandPolicy(allow=["ls"])
    lines._grammar.cache_clear()


# --- Ways around, and harmless lines


def test_no_way_around_is_allowed():
    scope: dict[str, Any] = {}
    exec((HERE / "ways.py").read_text(), scope)  # the module is beside this one, in no package
    policy = CommandPolicy(allow=["*"], deny=["canary *"])
    found = [*scope["RUN"], *scope["LATER"], *scope["PLACED"]]
    assert len(set(found)) >= 600
    assert [line for line in found if is_allowed(policy, line)] == []
    presets = [CommandPolicy(preset=each) for each in ("read-only", "developer", "careful")]
    every = [line for line in scope["PRESETS"] for preset in presets if is_allowed(preset, line)]
    assert every == []


def is_allowed(policy: CommandPolicy, line: str) -> bool:
    return strictest(policy.judge(line)) == "allow"


@pytest.mark.parametrize(
    ("preset", "allowed", "denied"), [("read-only", 180, 320), ("developer", 400, 1)]
)
def test_a_preset_allows_so_many_of_500_harmless_lines(preset, allowed, denied):
    assert len(set(HARMLESS)) == 500
    found = [verdict(line, preset=preset) for line in HARMLESS]
    assert found.count("allow") >= allowed
    assert found.count("deny") <= denied


def test_presets_differ_in_what_they_do_not_know():
    assert [verdict("frobnicate", preset=each) for each in ("read-only", "developer")] == [
        "deny",
        "ask",
    ]
    assert [verdict("curl x", preset=each) for each in ("developer", "careful")] == ["ask", "deny"]
    assert verdict("frobnicate", preset="read-only", allow=["frobnicate"]) == "allow"
    # A file in the folder names the compiler that cargo runs, and the registry that npm asks.
    for line in ("cargo tree", "cargo metadata", "npm view y", "npm outdated"):
        assert [verdict(line, preset=each) for each in ("read-only", "developer")] == [
            "deny",
            "allow",
        ]


# --- In a host


@tool(category="side_effect", name="bash", wire_name="Bash")
def bash(command: str, env: dict[str, str] | None = None) -> str:
    """Run a line."""
    return "ran"


@tool(category="side_effect")
def run_words(command: list[str]) -> str:
    """Run words."""
    return "ran"


@tool(category="side_effect")
def run_program(command: str, args: list[str] | None = None) -> str:
    """Run a program."""
    return "ran"


def called(policy: CommandPolicy, name: str, **arguments: Any) -> str:
    host = Host(discover=False, tools=[bash, run_words, run_program], policies=[policy])
    with host, host.executor() as tools:
        return tools.dispatch(ToolCall(name, arguments)).text


def test_a_model_reads_what_is_not_run_and_why():
    policy = CommandPolicy(allow=["ls *"], otherwise="deny")
    assert called(policy, "Bash", command="ls -la") == "ran"
    assert called(policy, "run_words", command=["ls", "$(x)"]) == "ran"
    assert called(policy, "Bash", command="ls && rm x") == (
        "Bash does not run this command here: rm x. Continue without it."
    )
    assert called(policy, "Bash", command="ls $((x))") == (
        "Bash does not run this command here: ls $((x)). It is not clear which commands it runs: "
        "it calculates with names, which may run commands. Write plain commands, one a line."
    )
    assert called(policy, "run_program", command="ls", args=["-la"]) == "ran"
    assert "rm" in called(policy, "run_program", command="ls", args=[";", "rm", "x"])
    assert "-exec" in called(
        CommandPolicy(allow=["find *"]),
        "run_program",
        command="find",
        args=[".", "-exec", "a", ";"],
    )
    assert "PATH=/tmp" in called(policy, "Bash", command="ls", env={"PATH": "/tmp"})
    assert "A=1" in called(policy, "Bash", command="ls", env={"A": "1"})


def test_a_tool_without_the_argument_is_a_fault(tmp_path):
    policy = CommandPolicy(allow=["ls"], argument="command_text", tools=frozenset({"Bash"}))
    with pytest.raises(ConfigurationError, match="command_text, which bash does not"):
        called(policy, "Bash", command="ls")


@pytest.fixture
def configured(tmp_path, monkeypatch) -> Path:
    (tmp_path / "toolstile.toml").write_text("""
[plugins.vfs]
root = "."

[plugins.sandbox]

[[policies]]
kind = "command"
name = "commands"
tools = ["shell_execute"]
allow = ["git *", "frob *"]
deny = ["rm *"]
options = {frob = ["--write"]}
""")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_explain_shows_the_verdict_on_each_command(configured, capsys):
    assert main(["policy", "explain", "--command", "git status && rm -rf x; eval y"]) == 0
    told = capsys.readouterr().out
    assert "commands: deny" in told
    for row in (
        ["allow", "git status", "allow 'git *'"],
        ["deny", "rm -rf x", "deny 'rm *'"],
        ["ask", "git status && rm -rf x; eval y", "unknown: eval may run or change commands"],
    ):
        assert any(all(each in line for each in row) for line in told.splitlines()), row
    assert main(["policy", "explain", "--command", "frob --write", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "ask"
    assert found["commands"][0]["rule"] == "allow 'frob *' does not name --write"


def test_explain_wants_a_tool_or_a_line(configured, tmp_path, capsys):
    assert main(["policy", "explain"]) != 0
    assert main(["policy", "explain", "shell_execute", "--command", "ls"]) != 0
    assert "NAME" in capsys.readouterr().err


def test_doctor_shows_the_options(configured, capsys):
    main(["doctor"])
    told = capsys.readouterr().out
    assert "commands of frob: An allow covers these only if it names them: --write" in told
    assert "-fprint" in told


# --- commands() in a rule


def test_a_rule_reads_the_commands_of_a_line():
    rule = compiled("commands(args.command).exists(c, c.program == 'rm' && '-rf' in c.words)")
    assert rule.evaluate({"args": {"command": "ls; /bin/rm -rf x"}})
    assert not rule.evaluate({"args": {"command": "ls; echo rm -rf x"}})
    assert rule.evaluate({"args": {"command": ["rm", "-rf"]}})
    with pytest.raises(EvaluationFailed, match="unknown which commands"):
        rule.evaluate({"args": {"command": "eval x"}})
    parts = "c.redirections == ['> f'] && c.assignments == ['A=1']"
    found = compiled(f"commands(args.command).all(c, {parts})")
    assert found.evaluate({"args": {"command": "A=1 ls > f"}})


def test_a_rule_is_checked_against_the_parts_of_a_command(office):
    rule = {"tools": ["run"], "effect": "deny"}
    when = "commands(args.command).exists(c, c.name == 'rm')"
    with pytest.raises(ConfigurationError, match=r"c\.name, which does not exist"):
        office.open({**rule, "when": when})
    office.open({**rule, "when": when.replace("c.name", "c.program")})
    assert not office("run", command="ls; rm x", files=[], site="https://a.example").success
    assert office("run", command="ls; ls", files=[], site="https://a.example").success
