"""Makes every ``python`` block of the README and the documentation a test.

``pytest docs README.md`` runs them: the blocks of one page share a namespace and run in their
order, each a test of its own. Blocks in other languages (``console``, ``toml``, ``text``) are left
alone. A block that must not run comes after ``<!-- skip: next -->``.
"""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
).pytest()

# The packages there bring tests of their own, which run where they are installed.
collect_ignore_glob = ["docs/examples/*/tests/*"]
