"""Names and comments from the text of a source, which MLIR's parser throws away.

In: the text of a source. Out: for each function with a body, the SSA names of its arguments
and the comment above it. A lexer of MLIR's tokens, so that strings, comments, attributes and
types may hold anything.

>>> argument_names("// Adds.\\nfunc.func @add(%a: f32, %b: f32) { return }")
{'add': FunctionText(names=('a', 'b'), comment='Adds.')}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f]+) | (?P<newline>\n) | (?P<comment>//[^\n]*)
  | (?P<numbers>(?:[-+]?\d[\w.]*(?:(?<=[eE])[-+]\d+)?\s*,\s*)+)
  | (?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")
  | (?P<symbol>@(?:[A-Za-z_][\w$.]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"))
  | (?P<value>%(?:\d+|[A-Za-z_$.-][\w$.-]*)(?:\#\d+)?)
  | (?P<label>[\^!\#](?:\d+|[A-Za-z_$.-][\w$.-]*))
  | (?P<word>[A-Za-z_][\w$.]*)
  | (?P<number>\d[\w.]*(?:(?<=[eE])[-+]\d+)?)
  | (?P<sign>->|>=|<=|==|::|.)
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
"""``numbers`` takes a whole list at once: constants may hold millions of them."""
FUNCTION_OPS = frozenset({"func.func", "llvm.func", "gpu.func", "func"})
MODULE_OPS = frozenset({"gpu.module", "module", "builtin.module"})
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}, frozenset(")]}>")
DIRECTIVE = re.compile(
    r"\s*(?:RUN|REQUIRES|UNSUPPORTED|XFAIL|DEFINE|REDEFINE|[A-Z][A-Z0-9_-]*-?CHECK[A-Z-]*|CHECK[\w-]*)\s*:|-{3,}"
)
"""Comments that speak to test tools or split files, not to readers."""


@dataclass(frozen=True)
class Token:
    """One token."""

    kind: str
    """Name of the group in TOKEN that matched."""
    text: str
    line: int
    """1-based, where it starts."""


@dataclass(frozen=True)
class FunctionText:
    """What the text says about one function."""

    names: tuple[str, ...]
    """SSA names of its arguments without ``%``, in order."""
    comment: str
    """Comment lines right above it, without ``//``; empty when there are none."""


def argument_names(text: str) -> dict[str, FunctionText]:
    """Functions with named arguments or a comment, by symbol.

    A function inside a named module also stands under ``module::function``; under its plain name
    only as long as no other function of the text has it.
    """
    tokens, comments = _split(text)
    lines_with_code = {token.line for token in tokens}
    found: dict[str, FunctionText] = {}
    twice: set[str] = set()
    for index, scope in _functions(tokens):
        name = _symbol(tokens[index])
        entry = FunctionText(_names(tokens, index + 1), _comment(comments, lines_with_code, _first_line(tokens, index)))
        if scope:
            found[f"{scope}::{name}"] = entry
        if name in found:
            twice.add(name)
        found[name] = entry
    return {name: entry for name, entry in found.items() if name not in twice}


def _split(text: str) -> tuple[list[Token], dict[int, str]]:
    """Tokens without blanks and comments; comments that have a line to themselves, by line."""
    tokens: list[Token] = []
    comments: dict[int, str] = {}
    line = 1
    for match in TOKEN.finditer(text):
        kind, value = match.lastgroup or "sign", match.group()
        if kind == "newline":
            line += 1
        elif kind == "comment":
            if not tokens or tokens[-1].line != line:
                comments[line] = value
        elif kind != "space":
            tokens.append(Token(kind, value, line))
            line += value.count("\n")
    return tokens, comments


def _functions(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """(index of the symbol, name of the module around it) of every function's signature."""
    scopes: list[str | None] = []  # None: inside an attribute dictionary, which opens no scope
    opened = ""
    for index, token in enumerate(tokens):
        if token.text in MODULE_OPS and token.kind == "word" and index + 1 < len(tokens):
            opened = _symbol(tokens[index + 1]) if tokens[index + 1].kind == "symbol" else ""
            continue
        if (
            token.kind == "sign"
            and token.text == "{"
            and (tokens[index - 1].text == "attributes" or None in scopes[-1:])
        ):
            scopes.append(None)
        elif token.kind == "sign" and token.text == "{":
            scopes.append(opened)
            opened = ""
        elif token.kind == "sign" and token.text == "}" and scopes:
            scopes.pop()
        elif token.kind == "word" and token.text in FUNCTION_OPS:
            symbol = _next_symbol(tokens, index + 1)
            if symbol is not None:
                yield symbol, next((scope for scope in reversed(scopes) if scope), "")


def _next_symbol(tokens: Sequence[Token], start: int) -> int | None:
    """The symbol that is followed by ``(``, after words such as ``private`` or a linkage."""
    for index in range(start, min(start + 6, len(tokens) - 1)):
        if tokens[index].kind == "symbol":
            return index if tokens[index + 1].text == "(" else None
        if tokens[index].kind not in ("word", "sign", "number") or tokens[index].text in "[{<":
            return None
    return None


def _names(tokens: Sequence[Token], start: int) -> tuple[str, ...]:
    """Value names that open an argument: right after ``(`` or a ``,`` of the signature's own level."""
    names: list[str] = []
    depth, fresh = 0, False
    for token in tokens[start:]:
        if depth == 1 and fresh and token.kind == "value":
            names.append(token.text[1:].split("#")[0])
        fresh = False
        if token.kind == "sign" and token.text in OPENING:
            depth += 1
            fresh = depth == 1
        elif token.kind == "sign" and token.text in CLOSING:
            depth -= 1
            if depth == 0:
                break
        elif depth == 1 and token.text == ",":
            fresh = True
    return tuple(names)


def _first_line(tokens: Sequence[Token], symbol: int) -> int:
    """Line of the function's operation name."""
    for index in range(symbol - 1, -1, -1):
        if tokens[index].kind == "word" and tokens[index].text in FUNCTION_OPS:
            return tokens[index].line
    return tokens[symbol].line


def _comment(comments: dict[int, str], code: set[int], line: int) -> str:
    """The unbroken run of comment lines that ends right above ``line``."""
    first = line
    while first - 1 in comments and first - 1 not in code:
        first -= 1
    return _clean([comments[number] for number in range(first, line)])


def _clean(lines: Sequence[str]) -> str:
    texts = [line.lstrip("/").removeprefix(" ").rstrip() for line in lines]
    return "\n".join(text for text in texts if not DIRECTIVE.match(text)).strip("\n")


def _symbol(token: Token) -> str:
    return token.text[1:].strip('"')
