"""`evaluate_python`, line by line of what was asked of it."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    Binding,
    Cancellation,
    ConfigurationError,
    Deadline,
    Filesystem,
    MarkdownSection,
    Prompt,
    PromptEvaluationError,
    Status,
    ToolCall,
    ToolContext,
    ToolValidationError,
)
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.asteval import AstevalConfig, AstevalSection
from toolstile_plugins.asteval.evaluation import SYMBOLS
from toolstile_plugins.asteval.section import evaluate_python
from toolstile_plugins.asteval.settings import EvaluatePython, Write
from toolstile_plugins.code import CodeSection
from toolstile_plugins.policies import ReadBeforeWritePolicy
from toolstile_plugins.vfs import VfsToolsSection, VirtualFilesystem

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes")

PATIENCE = 60.0
# A fork of the process of the tests has their memory.
ROOMY = AstevalConfig(memory=4 * 1024**3, cpu_seconds=1)


class Held:
    """Resources of a context made by hand."""

    def __init__(self, files: Filesystem | None) -> None:
        self.held = {AstevalConfig: ROOMY, Filesystem: files}

    def get(self, kind: Any, default: Any = ...) -> Any:
        return self.held[kind]


def evaluate(code: str, files: Filesystem | None = None, **more: Any) -> Any:
    """Evaluate code in a fork of this process, without a host."""
    context = ToolContext(session=None, resources=Held(files))
    result = evaluate_python(EvaluatePython(code, **more), context=context)
    return result.value if result.success else result.message


def shop_files() -> VirtualFilesystem:
    return VirtualFilesystem.in_memory({"a.csv": "1\n2\n", "b.txt": "b"})


@pytest.fixture
def files() -> VirtualFilesystem:
    return shop_files()


@pytest.fixture(scope="module")
def executor():
    sections = [
        AstevalSection(config=AstevalConfig(cpu_seconds=1, timeout=PATIENCE)),
        VfsToolsSection(filesystem=shop_files()),
    ]
    with Host() as host, host.executor(prompt=Prompt.of("a", "b", sections)) as made:
        yield made


def call(executor: Executor, code: str, **more: Any) -> Any:
    arguments = {"code": code, **more}
    return executor.dispatch(ToolCall("evaluate_python", arguments))


# 1. evaluate_python(code <= 2,000 characters, globals, reads, writes)


def test_code_globals_reads_and_writes_come_back_as_one_result(executor):
    outcome = call(
        executor,
        "total = sum(numbers) + len(reads['b.txt'])\nprint('summed', '\\d')\ntotal",
        globals={"numbers": "[1, 2]"},
        reads=["b.txt"],
        writes=[{"path": "total.txt", "content": "total: {total}\n"}],
    )
    assert outcome.result.value.value_repr == "4"
    assert outcome.text == (
        f"Value: 4\nPrinted:\nsummed \\d\nWarnings:\n{outcome.result.value.stderr.strip()}\n"
        "numbers = [1, 2]\ntotal = 4\nRead: b.txt\nWritten: total.txt"
    )
    assert "invalid escape sequence" in outcome.result.value.stderr
    shown = executor.dispatch(ToolCall("read_file", {"path": "total.txt"}))
    assert "total: 4" in shown.text


def test_code_has_at_most_2000_characters(executor):
    outcome = call(executor, "#" * 2001)
    assert outcome.status is Status.INVALID
    assert "2000" in outcome.text


# 2. a process of its own, killed at its time, at cancellation and deadline


def children() -> set[int]:
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", ["timeout", "cancelled", "deadline"])
def test_its_process_is_killed_when_the_call_is_given_up(way):
    config = AstevalConfig(timeout=1.5 if way == "timeout" else PATIENCE, cpu_seconds=60)
    prompt = Prompt.of("a", "b", [AstevalSection(config=config)])
    with Host() as host, host.executor(prompt=prompt) as executor:
        before = children() if Path("/proc").is_dir() else set()
        more: dict[str, Any] = {}
        if way == "cancelled":
            more["cancellation"] = Cancellation()
            threading.Timer(1.5, more["cancellation"].cancel).start()
        elif way == "deadline":
            more["deadline"] = Deadline.after(1.5)
        stuck = ToolCall("evaluate_python", {"code": "while True: pass"}, **more)
        began = time.monotonic()
        if way == "deadline":
            with pytest.raises(PromptEvaluationError):
                executor.dispatch(stuck)
        else:
            outcome = executor.dispatch(stuck)
            expected = Status.TIMED_OUT if way == "timeout" else Status.CANCELLED
            assert outcome.status is expected
        assert time.monotonic() - began < PATIENCE
        until = time.monotonic() + PATIENCE
        while Path("/proc").is_dir() and children() - before and time.monotonic() < until:
            time.sleep(0.05)
        assert not (Path("/proc").is_dir() and children() - before)


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("9**9**9", "Invalid exponent, max exponent is 10000"),
        ("'a' * 10**10", "String length exceeded, max string length is 262144"),
        ("'a'.ljust(10**11)", "MemoryError: it may take 4096 MiB (memory)"),
        ("[0] * 10**11", "MemoryError: it may take 4096 MiB (memory)"),
        *(
            pytest.param(code, "it used up its 1 seconds of processor", marks=pytest.mark.slow)
            for code in (
                "while True: pass",
                "math.factorial(10**7)",
                "x = 10**9999\nfor i in range(30): x = x * x",
            )
        ),
        ("def f(n): return f(n + 1)\nf(0)", "maximum recursion depth exceeded"),
        ("range(10**9)", "range() gives up to 1,000,000 numbers"),
        ("pow(10, 10**6)", "pow() gives integers of up to 1,000,000 bits"),
        ("str(10**9000)", "Exceeds the limit (4300 digits)"),
    ],
)
def test_a_limit_ends_in_a_failed_result_that_says_which(code, limit):
    told = evaluate(code)
    assert limit in told
    assert told.endswith("Fix the code, then retry.")


@pytest.mark.slow
def test_the_limits_are_those_of_the_configuration(executor):
    assert "it may take 256 MiB (memory)" in call(executor, "[0] * 10**9").text


# 3. the symbol table is made of a list of ours


def test_the_symbols_are_those_of_the_list():
    ours = {
        *("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int"),
        *("isinstance", "len", "list", "map", "max", "min", "pow", "print", "range", "reversed"),
        *("round", "set", "sorted", "str", "sum", "tuple", "zip", "math", "statistics"),
    }
    assert set(SYMBOLS) == ours
    for name in ("open", "type", "dir", "getattr", "bytes", "Exception", "sqrt", "numpy"):
        assert f"NameError: name '{name}' is not defined" in evaluate(f"{name}(1)")


def test_statistics_are_five_functions():
    given = "[f([1, 2, 4]) for f in (statistics.mean, statistics.median)]"
    assert evaluate(given).value_repr == "[2.3333333333333335, 2]"
    assert "AttributeError" in evaluate("statistics.sys")
    assert evaluate("statistics.stdev([1, 3]) > statistics.pstdev([1, 3])").value_repr == "True"
    assert evaluate("statistics.variance([1, 3])").value_repr == "2"


# 4. nodes are configured one by one


def test_what_the_guidance_shows_is_there(subtests):
    for code, value in [
        ("x = 3\nif x > 2:\n  x = 4\nelse:\n  x = 5\nx", "4"),
        ("t = 0\nfor i in range(5):\n  if i == 3: break\n  t += i\nt", "3"),
        ("n = 5\nwhile n > 1:\n  n -= 1\n  continue\nn", "1"),
        ("n = 2\nwhile n:\n  n -= 1\nelse:\n  n = 'else'\nn", "'else'"),
        ("n = 2\nwhile n:\n  n -= 1\n  break\nelse:\n  n = 'else'\nn", "1"),
        (
            "t = []\nfor x in map(lambda v: v + 1, [1, 2]):\n  if x < 3: continue\n  t += [x]\nt",
            "[3]",
        ),
        ("def first(n):\n  while True:\n    n += 1\n    if n > 3: return n\nfirst(1)", "4"),
        ("def double(x, by=2):\n  return x * by\ndouble(3), double(3, by=3)", "(6, 9)"),
        ("[x for x in range(5) if x % 2]", "[1, 3]"),
        ("{x: x * x for x in (1, 2)}, {x % 2 for x in (1, 3)}", "({1: 1, 2: 4}, {1})"),
        ("sum(x * y for x, y in zip([1, 2], [3, 4]))", "11"),
        (
            "sorted([3, 1], key=lambda v: -v), list(map(abs, [-1])), 1 if 2 > 1 else 0",
            "([3, 1], [1], 1)",
        ),
        ("f'{math.pi:.2f} {\"x\"!r:>5}'", "\"3.14   'x'\""),
        (
            "' a,b '.strip().split(','), {'a': 1}.get('b', 2), [1, 2][::-1]",
            "(['a', 'b'], 2, [2, 1])",
        ),
    ]:
        with subtests.test(code=code, value=value):
            assert evaluate(code).value_repr == value


def test_what_is_not_there_is_refused_with_every_fault_and_its_line():
    told = evaluate(
        "import os\nfrom os import path\nclass A: pass\nwith a: pass\ntry:\n  1\nexcept: pass\n"
        "raise x\nassert x\ndel x\nx: int = 1\nprint(*x)\n(y := 1)\nglobal x\nb'a'\n{**x}\n"
        "def f(*, a): pass\nasync def g(): pass\n"
    )
    lines = [line for line in told.splitlines() if line.startswith("line ")]
    assert lines[:4] == [
        "line 1: import is not available",
        "line 2: import is not available",
        "line 3: class is not available",
        "line 4: with is not available",
    ]
    assert {int(line.split(":")[0].split()[1]) for line in lines} >= {5, 8, 9, *range(10, 19)}


# 5. known escapes

ESCAPES = [
    "().__class__.__bases__[0].__subclasses__()",
    "''.__class__.__mro__",
    "x = ''\nx.__class__",
    "(1).__class__",
    "print.__self__",
    "math.__loader__",
    "math.__dict__",
    "abs.__module__",
    "[].append.__self__",
    "(lambda: 1).__code__",
    "def f(): pass\nf.__globals__",
    "def f(): pass\nf.__asteval__.symtable",
    "def f(): pass\nf.name",
    "__builtins__",
    "__import__('os')",
    "def __init__(): pass",
    "lambda __class__: 1",
    "dict(__class__=1)",
    "'{0.__class__}'.format(1)",
    "str.format('{0.__class__}', 1)",
    "'{0.__class__}'.format_map({'0': 1})",
    "f'{1:{1}}'",
    "f'{().__class__}'",
    "f'{1:{().__class__}}'",
    "x = '}{__fstring__.__class__'\nf'{1:{x}}'",
    "__fstring__",
    "type(1)",
    "type(type(1))",
    "str.mro()",
    "str.join",
    "int.from_bytes",
    "dict.fromkeys([1])",
    "(x for x in [1]).gi_frame",
    "getattr(1, 'real')",
    "open('/etc/passwd').read()",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "vars()",
    "globals()",
    "math.pi = 3",
    "math.sin.__call__(1)",
    "[0 for math.pi in [1]]",
    "for math.pi in [1]: pass",
    "import numpy",
    "numpy.fromfile('/etc/passwd')",
    "fromfile('/etc/passwd')",
    "loadtxt('/etc/passwd')",
    "ndarray(1).ctypes",
    "print(1, file=x)",
    "(" * 300 + ")" * 300,
    "-" * 1999 + "1",
    "[" * 150 + "]" * 150 + "[0]" * 200,
]


def test_a_known_way_out_fails(subtests):
    for code in ESCAPES:
        with subtests.test(code=code):
            told = evaluate(code)
            assert isinstance(told, str), told
            assert "root:" not in told


# 6. reads


def test_files_are_read_through_the_workspace_of_the_call(files):
    value = evaluate(
        "reads['b.txt'] + read_text('a.csv') + read_text('/workspace/b.txt')",
        files,
        reads=("b.txt",),
    )
    assert value.value_repr == repr("b1\n2\nb")
    assert value.reads == ("b.txt", "a.csv", "/workspace/b.txt")


def refused(code: str, files: Filesystem | None, **more: Any) -> str:
    with pytest.raises(ToolValidationError) as caught:
        evaluate(code, files, **more)
    return str(caught.value)


def test_a_path_that_cannot_be_read_fails_with_what_to_do(files):
    told = refused("1", files, reads=("a.cvs", "/etc/passwd"))
    assert "There is no a.cvs. Did you mean a.csv?" in told
    assert "There is no etc/passwd" not in told
    assert 'The path "/etc/passwd" is absolute. Give it relative to the workspace' in told
    assert "There is no x.txt." in evaluate("read_text('x.txt')", files)
    assert "is absolute" in evaluate("read_text('/etc/passwd')", files)


def test_a_path_cannot_be_read_and_written_in_one_call(files):
    write = Write("./a.csv", "x", "overwrite")
    assert "./a.csv is read and written. Use one call for each." in refused(
        "1", files, reads=("a.csv",), writes=(write,)
    )
    code = "read_text('a.csv')\nwrite_text('a.csv', 'x', 'overwrite')"
    assert "a.csv is read and written." in refused(code, files)
    assert files.read("a.csv") == "1\n2\n"


def test_without_a_workspace_only_code_runs():
    assert evaluate("1 + 1").value_repr == "2"
    assert "there is no workspace here. Leave reads and writes out" in refused(
        "1", None, reads=("a",)
    )
    assert "name 'read_text' is not defined" in evaluate("read_text('a')")
    assert "name 'write_text' is not defined" in evaluate("write_text('a', 'b')")


# 7. writes


def test_writes_are_applied_after_the_code_in_their_modes(files):
    evaluate(
        "write_text('new/c.txt', 'c')\nwrite_text('b.txt', 'B', 'overwrite')",
        files,
        writes=(Write("a.csv", "3\n", "append"),),
    )
    assert [files.read(path) for path in ("new/c.txt", "b.txt", "a.csv")] == ["c", "B", "1\n2\n3\n"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("write_text('a.csv', 'x')", "a.csv already exists. Choose overwrite, append"),
        ("write_text('x', 'x', 'overwrite')", "There is no x."),
        ("write_text('x', 'x', 'append')", "There is no x."),
        ("write_text('c', 'x')\nwrite_text('./c', 'y')", "./c is written twice. Write it once."),
        ("write_text('../c', 'x')", "leads outside the workspace"),
    ],
)
def test_writes_that_do_not_fit_leave_nothing(files, code, told):
    assert told in refused(f"write_text('before.txt', 'x')\n{code}", files)
    assert not files.exists("before.txt")
    assert files.read("a.csv") == "1\n2\n"


@pytest.mark.parametrize("name", ["read_text", "write_text"])
def test_a_path_that_is_no_text_is_an_error_of_the_code(files, name):
    rest = "" if name == "read_text" else ", 'x'"
    assert f"line 1: ValueError: {name}() takes a path" in evaluate(f"{name}(1{rest})", files)


def test_an_error_discards_writes_and_says_so(files):
    told = evaluate("write_text('c.txt', 'x')\n1 / 0", files, writes=(Write("d.txt", "x"),))
    assert told == (
        "The code fails, and nothing is written.\nline 2: ZeroDivisionError: division by zero\n"
        "Fix the code, then retry."
    )
    assert not files.exists("c.txt")
    assert not files.exists("d.txt")


def test_read_before_write_knows_the_targets():
    policy = ReadBeforeWritePolicy(
        write_tools={"evaluate_python"}, paths={"evaluate_python": ("path",)}
    )
    sections = [
        MarkdownSection(
            key="p",
            title="P",
            tools=AstevalSection().tools,
            policies=[policy],
            resources=AstevalSection().resources,
        ),
        VfsToolsSection(filesystem=shop_files(), policies=()),
    ]
    write = {"path": "b.txt", "content": "B", "mode": "overwrite"}
    with Host() as host, host.executor(prompt=Prompt.of("a", "b", sections)) as executor:
        assert call(executor, "1", writes=[write]).status is Status.DENIED


# 8. variables in the content of writes


def test_braces_in_a_content_name_variables(files):
    evaluate("n = 3\nname = 'x'", files, writes=(Write("c.json", '{"{name}": {"n": {n}}}'),))
    assert files.read("c.json") == '{"x": {"n": 3}}'
    told = evaluate("n = 3", files, writes=(Write("d", "{n} {total} {mean}"),))
    assert "the content of a write names mean, total, which the code has not left" in told


# 9. globals


def test_globals_are_json_by_identifiers_and_every_fault_is_told():
    told = refused("1", None, globals={"a b": "1", "class": "1", "_x": "1", "y": "{", "z": "nope"})
    for fault in (
        "'a b' cannot be",
        "'class' cannot be",
        "'_x' cannot be",
        "'y' is not JSON",
        "'z' is",
    ):
        assert fault in told


def test_globals_come_back_as_json_else_as_python_shows_them():
    code = (
        "new = {'a': [1, None]}\n_a = 1\nodd = {1, 1}\nlong = 'x' * 9999\nlen = 3\nbig = 10**9000"
    )
    left = evaluate(code, globals={"given": '"é"'}).globals
    assert left["given"] == '"é"'
    assert left["new"] == '{"a": [1, null]}'
    assert left["odd"] == "{1}"
    assert left["long"] == '"' + "x" * 4095 + "... (cut)"
    assert left["big"].startswith("<int that cannot be shown")
    assert set(left) == {"given", "new", "odd", "long", "big"}


# 10. value, output, errors


def test_a_value_is_that_of_a_last_expression_only():
    assert evaluate("x = 1").value_repr is None
    assert evaluate("1\nx = 2").value_repr is None
    assert evaluate("").value_repr is None
    assert evaluate("'x'").value_repr == "'x'"


def test_output_is_cut_at_4096_characters_and_marked(executor):
    warned = "'\\d'\n" * 99
    code = f"{warned}print('a' * 5000)\nprint('b')\n'c' * 5000"
    value = call(executor, code).result.value
    assert value.stdout == "a" * 4096 + "... (cut)"
    assert value.stderr[4096:] == "... (cut)"
    assert value.value_repr == "'" + "c" * 4095 + "... (cut)"


def test_an_error_has_type_message_and_line_and_no_traceback():
    told = evaluate("def f(x):\n  return x['a']\n\nf({})")
    assert "line 2: KeyError: 'a'" in told
    assert "Traceback" not in told
    assert "asteval" not in told
    assert "line 1: '(' was never closed" in evaluate("f(")


# 11. the extra, and what the tool says of itself


def test_without_its_library_the_section_refuses_to_be_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "asteval", None)
    remedy = rf"evaluate_python needs asteval, .* {re.escape(extra_remedy('workspace'))}"
    with pytest.raises(ConfigurationError, match=remedy):
        AstevalSection()
    configured = Settings(plugins={"asteval": {}})
    with pytest.raises(Exception, match=remedy), Host(settings=configured):
        pass
    with Host() as host:
        assert "evaluate_python" not in host.catalog.names()


def test_it_is_a_contained_tool_of_low_consequence_in_a_process():
    section = AstevalSection(config=AstevalConfig(timeout=7.0))
    (made,) = section.tools
    assert (made.category, made.consequence, made.contained) == ("side_effect", "low", True)
    assert (made.isolation, made.timeout) == ("process", 7.0)
    assert AstevalConfig().timeout == 5.0
    assert (section.policies, section.on_session) == ((), None)


# 12. a calculator, no sandbox


def test_its_description_says_that_it_is_no_sandbox():
    (made,) = AstevalSection().tools
    assert "no sandbox against an attacker" in made.description
    assert "use a container" in made.description


@pytest.mark.slow
def test_the_configuration_asks_for_it():
    bound = Binding.instance(Filesystem, shop_files())
    settings = Settings(plugins={"asteval": {"cpu_seconds": 2, "timeout": PATIENCE}})
    with Host(settings=settings, resources=(bound,)) as host, host.executor() as executor:
        assert call(executor, "len(read_text('a.csv'))").result.value.value_repr == "4"


@pytest.mark.slow
def test_a_script_of_code_mode_calculates_on_what_it_has_written():
    calculator = AstevalSection(config=AstevalConfig(timeout=PATIENCE))
    sections = [calculator, CodeSection(), VfsToolsSection(filesystem=shop_files())]
    code = (
        "write_file(path='n.txt', content='1 2')\n"
        "evaluate_python(\"sum(map(int, read_text('n.txt').split()))\")['value_repr']"
    )
    with Host() as host, host.executor(prompt=Prompt.of("a", "b", sections)) as executor:
        outcome = executor.dispatch(ToolCall("run_python", {"code": code}))
        assert outcome.result.value.value == "3", outcome.text
