"""Writes the ninja file of a build from ``build_rules/``.

In: one Edge per source. Out: the text of ``build.ninja``.

>>> edge = Edge("softmax", "/w/jobs/softmax.json", "/w/objects/softmax/source.json")
>>> "source.json: compile" in build_file([edge], "/w")
True
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from aot import resources

OPTIONS = "-I -S"
"""Of the Python that an edge is."""


@dataclass(frozen=True)
class Edge:
    """The compilation of one source."""

    source: str
    """What a progress line calls it."""
    job: str
    """Absolute path of the job's description: the input, with digests of the source and of all else that counts."""
    output: str
    """Absolute path of the file that is there when the source is done."""
    also: tuple[str, ...] = ()
    """Absolute paths of further outputs: when one is gone, the job runs again."""


def build_file(edges: Sequence[Edge], work: str) -> str:
    """The text of ``build.ninja`` for a work folder."""
    # Imported here: most builds find the file that they need.
    import jinja2

    folder = resources.build_rules()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False
    )
    environment.filters.update(path=_path, text=_text, word=_word)
    return environment.get_template("build.ninja.in").render(
        edges=edges,
        work=work,
        python=sys.executable,
        options=OPTIONS,
        edge=str(resources.PACKAGE / "engine" / "ninjaclient.py"),
        rules=str(folder / "compile.ninja"),
    )


def _text(value: str) -> str:
    """A value of a variable."""
    return value.replace("$", "$$").replace("\n", " ")


def _path(value: str) -> str:
    """A path in a build line, where blanks and colons have a meaning."""
    return _text(value).replace(" ", "$ ").replace(":", "$:")


def _word(value: str) -> str:
    """A path that becomes one word of a shell command."""
    return shlex.quote(value)
