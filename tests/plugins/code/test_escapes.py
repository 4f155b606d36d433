"""Ways out of Monty that are known, each of which fails."""

import os

import pytest
from tests.plugins.code.suite import offer, run, running

from toolstile_plugins.code import CodeConfig

ESCAPES = {
    "classes": ["().__class__", "''.__class__.__mro__", "type(1).mro()", "object.__subclasses__()"],
    "classes of its own": ["class A: pass\nA.__base__", "class A: pass\nA().__class__.__bases__"],
    "names that are made": ["getattr((), '__cl' + 'ass__')", "setattr(int, 'x', 1)"],
    "formats": ["'{0.__class__}'.format(1)", "f'{(1).__class__}'", "'%s' % ''.__class__"],
    "frames": [
        "(x for x in [1]).gi_frame",
        "def f(): pass\nf.__globals__",
        "(lambda: 1).__code__",
        "try:\n  1 / 0\nexcept Exception as error:\n  error.__traceback__.tb_frame",
        "import sys\nsys._getframe()",
    ],
    "functions of the host": [
        "offer.__globals__",
        "offer.__self__",
        "offer.__call__.__globals__",
        "getattr(offer, '__code__')",
        "eval('offer.__func__')",
    ],
    "builtins": [
        "__builtins__",
        "__import__('os').system('id')",
        "__loader__.load_module('os')",
        "compile('1', '', 'eval')",
        "breakpoint()",
        "input()",
        "globals()['__builtins__']",
        "eval('__import__(\"os\")')",
    ],
    "modules": [
        "import subprocess",
        "import socket",
        "import ctypes",
        "import importlib",
        "import pickle",
        "import inspect",
        "exec('import subprocess')",
        "import sys\nsys.modules['os']",
        "import os\nos.system('id')",
        "import numpy",
    ],
    "files": [
        "open('/etc/passwd').read()",
        "open('x', 'w').write('x')",
        "from pathlib import Path\nPath('/etc/passwd').read_text()",
        "from pathlib import Path\nPath('/').iterdir()[0]",
        "import os\nos.listdir('/')",
        "import os\nos.remove('/etc/passwd')",
    ],
    "environment": ["import os\nos.environ['HOME']", "import os\nos.getenv('HOME')"],
    "too much": [
        "9**9**9",
        "'a' * 10**10",
        "[0] * 10**10",
        "list(range(10**10))",
        "1 << 10**10",
        "x = 'a'\nwhile True: x += x",
        "x = []\nwhile True: x.append([x])",
        "while True: pass",
        "import re\nre.match('(a|a)*$', 'a' * 60 + 'b')\nraise ValueError",
        "import json\njson.loads('[' * 10**6)",
        "def f(n): return f(n + 1)\nf(0)",
        "(lambda f: f(f))(lambda f: f(f))",
        "'x'.join(['y' * 1000] * 10**6)",
        "import math\nmath.factorial(10**6)",
        "eval('(' * 10**4 + ')' * 10**4)",
        "sum([[]] * 10**6, [])[0]",
    ],
}


@pytest.fixture(scope="module")
def shop():
    config = CodeConfig(type_check=False, compute_seconds=0.3, memory=20_000_000)
    with running([offer], config=config) as executor:
        yield executor


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, id=f"{of} {i}") for of in ESCAPES for i, code in enumerate(ESCAPES[of])],
)
def test_a_known_way_out_fails(shop, code):
    outcome = run(shop, code)
    assert not outcome.success, outcome.text
    assert str(os.getpid()) not in outcome.text
    assert "root:" not in outcome.text
    assert run(shop, "offer('mug')['price']").result.value.value == 4.5
