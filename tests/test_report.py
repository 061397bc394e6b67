"""What is shown while a build runs: a bar on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io
import sys

import pytest

from aot.reporting import report
from aot.reporting.terminal import Terminal


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def tell(reporter: report.Reporter) -> None:
    reporter.stage("compiling 2 sources")
    reporter.started("a.mlir")
    reporter.progress(1, 2, "a.mlir")
    reporter.progress(2, 2, "b.mlir")
    reporter.note("[odd] markup")
    reporter.detail("a command")
    reporter.stage("packaging")
    reporter.close()


PLAIN = "compiling 2 sources\n[1/2] a.mlir\n[2/2] b.mlir\nnote: [odd] markup\n"
KINDS = [
    ("plain", False, False, PLAIN + "packaging\n"),
    ("verbose", False, True, PLAIN + "a command\npackaging\n"),
    ("quiet", True, False, ""),
]


@pytest.mark.parametrize(("quiet", "verbose", "text"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_lines(quiet: bool, verbose: bool, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    tell(report.reporter(quiet=quiet, verbose=verbose))
    assert capsys.readouterr() == ("", text)


def test_a_note_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    shown = report.Once(report.reporter(quiet=False, verbose=True))
    shown.note("[odd] markup")
    tell(shown)
    assert (
        capsys.readouterr().err == f"note: [odd] markup\n{PLAIN.replace('note: [odd] markup', 'a command')}packaging\n"
    )


def test_a_terminal_gets_a_bar_and_lines_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    tell(report.reporter(quiet=False, verbose=False))
    assert "note: [odd] markup" in screen.getvalue()
    assert "a command" not in screen.getvalue()


def test_a_terminal_shows_what_has_been_running_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    shown = Terminal(verbose=False)
    shown.stage("compiling 3 sources")
    for name in ("a.mlir", "b.mlir", "c.mlir"):
        shown.started(name)
    shown.progress(1, 3, "a.mlir")
    shown.bar.refresh()
    shown.close()
    assert "1/3" in screen.getvalue()
    assert "2 running, longest b.mlir 0 s" in screen.getvalue()


def test_tables_can_be_cut_by_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    report.table("archs", ["name", "n"], [["sm_80", "1"], ["x", "22"]])
    assert capsys.readouterr().out == "archs\nname   n\nsm_80  1\nx      22\n"


def test_a_table_on_a_terminal_has_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    report.table("archs", ["name"], [["sm_80"]])
    assert "sm_80" in screen.getvalue()
    assert screen.getvalue() != "archs\nname\nsm_80\n"
