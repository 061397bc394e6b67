"""Compares a program's output with the CHECK lines of its source, as FileCheck does (the part of it that these use).

In: a source's text, its prefix, an output. Out: None, or what is missing, with its line.
Known: CHECK, -NEXT, -SAME, -DAG, -NOT, -LABEL, -EMPTY, -COUNT-n, {LITERAL}, {{regex}}, [[name]],
[[name:regex]]. Runs of blanks count as one.

>>> problem(parse("// CHECK: a{{[0-9]+}}\\n// CHECK-NEXT: b"), "x a12\\n b\\n")
>>> problem(parse("// CHECK: a\\n// CHECK-NEXT: b"), "a\\nc\\n")
'line 2: CHECK-NEXT: b: not found'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

DIRECTIVE = r"(?<![\w-]){prefix}(-NEXT|-SAME|-DAG|-NOT|-LABEL|-EMPTY|-COUNT-\d+)?(\{{LITERAL\}})?:(.*)"
PART = re.compile(r"\{\{(.+?)\}\}|\[\[([A-Za-z_$]\w*)(?::(.*?))?\]\]")


@dataclass(frozen=True)
class Directive:
    """One CHECK line."""

    kind: str
    """Empty for a plain CHECK, else ``NEXT``, ``SAME``, ``DAG``, ``NOT``, ``EMPTY``, ``COUNT-8``."""
    pattern: str
    literal: bool
    line: int
    """1-based line in the source."""

    def text(self, prefix: str = "CHECK") -> str:
        return f"line {self.line}: {prefix}{'-' if self.kind else ''}{self.kind}: {self.pattern}"


def parse(source: str, prefix: str = "CHECK") -> tuple[Directive, ...]:
    """The directives of ``prefix`` in order."""
    form = re.compile(DIRECTIVE.format(prefix=re.escape(prefix)))
    found = []
    for number, line in enumerate(source.splitlines(), 1):
        match = form.search(line)
        if match:
            kind = (match[1] or "").removeprefix("-").replace("LABEL", "")
            found.append(Directive(kind, _blanks(match[3]).strip(), bool(match[2]), number))
    return tuple(found)


def problem(directives: Sequence[Directive], output: str) -> str | None:
    """The first directive that the output does not meet; None when all are met."""
    scan = _Scan("\n".join(_blanks(line).rstrip() for line in output.splitlines()) + "\n")
    for index, directive in enumerate(directives):
        following = directives[index + 1].kind if index + 1 < len(directives) else "END"
        wrong = scan.step(directive, following)
        if wrong:
            return f"{directive.text()}: {wrong}"
    return scan.finish()


def _blanks(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


@dataclass
class _Scan:
    """Where matching stands in the output."""

    text: str
    position: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    forbidden: list[Directive] = field(default_factory=list)
    """CHECK-NOT lines since the last match: tested when the next match, or the end, is known."""
    group_start: int = 0
    """Where the running group of CHECK-DAG lines may begin to match."""
    taken: list[tuple[int, int]] = field(default_factory=list)
    """Spans that the group has matched; they must not overlap."""

    def step(self, directive: Directive, following: str) -> str | None:
        if directive.kind == "NOT":
            self.forbidden.append(directive)
            return None
        if directive.kind == "DAG":
            return self._unordered(directive, last=following != "DAG")
        repeats = int(directive.kind.removeprefix("COUNT-")) if directive.kind.startswith("COUNT-") else 1
        for _ in range(repeats):
            wrong = self._ordered(directive)
            if wrong:
                return wrong
        return None

    def finish(self) -> str | None:
        return self._forbidden(self.position, len(self.text))

    def _ordered(self, directive: Directive) -> str | None:
        begin, end = self._window(directive.kind)
        expression = r"^$" if directive.kind == "EMPTY" else self._expression(directive)
        match = re.compile(expression, re.MULTILINE).search(self.text, begin, end)
        if match is None:
            return "not found"
        wrong = self._forbidden(self.position, match.start())
        self._keep(directive, match)
        self.position = match.end()
        return wrong

    def _window(self, kind: str) -> tuple[int, int]:
        line_end = self.text.find("\n", self.position)
        line_end = len(self.text) if line_end < 0 else line_end
        if kind == "SAME":
            return self.position, line_end
        if kind in ("NEXT", "EMPTY"):
            after = self.text.find("\n", line_end + 1)
            return min(line_end + 1, len(self.text)), len(self.text) if after < 0 else after
        return self.position, len(self.text)

    def _unordered(self, directive: Directive, *, last: bool) -> str | None:
        if not self.taken:
            self.group_start = self.position
        form = re.compile(self._expression(directive), re.MULTILINE)
        match = form.search(self.text, self.group_start)
        while match and any(match.start() < stop and start < match.end() for start, stop in self.taken):
            match = form.search(self.text, match.start() + 1)
        if match is None:
            return "not found"
        self._keep(directive, match)
        self.taken.append(match.span())
        if last:
            wrong = self._forbidden(self.position, min(start for start, _ in self.taken))
            self.position = max(stop for _, stop in self.taken)
            self.taken = []
            return wrong
        return None

    def _forbidden(self, begin: int, end: int) -> str | None:
        for directive in self.forbidden:
            if re.compile(self._expression(directive), re.MULTILINE).search(self.text, begin, end):
                return f"{directive.text()}: found, and must not be"
        self.forbidden = []
        return None

    def _expression(self, directive: Directive) -> str:
        """The directive's pattern as a regular expression; ``[[name:regex]]`` becomes a group of that name."""
        if directive.literal:
            return re.escape(directive.pattern)
        parts, at, named = [], 0, set()
        for match in PART.finditer(directive.pattern):
            parts.append(re.escape(directive.pattern[at : match.start()]))
            at = match.end()
            regex, name, definition = match.groups()
            if regex is not None:
                parts.append(f"(?:{regex})")
            elif definition is not None:
                parts.append(f"(?P<{name}>{definition})")
                named.add(name)
            else:
                parts.append(f"(?P={name})" if name in named else re.escape(self.variables.get(name, "\0")))
        return "".join([*parts, re.escape(directive.pattern[at:])])

    def _keep(self, directive: Directive, match: re.Match[str]) -> None:
        self.variables.update({name: value for name, value in match.groupdict().items() if value is not None})
