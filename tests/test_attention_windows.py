"""Attention whose queries see keys near their own places: what is left out, and that values are right at all edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attention_source import Attention
from cpurun import build
from lowering import lower
from test_attention import AMPERE, CAUSAL, inputs
from test_hopper import chosen, tiles

NUMBERS = """%low = arith.constant -3.0e38 : f32
  %one = arith.constant 1 : index
  %before = arith.constant {before} : index
  %after = arith.constant {after} : index
  %behind = arith.subi %nn, %nm : index
  """
ENDS = {
    "own": "%end = arith.addi %i, %after : index",
    "dims": "%moved = arith.addi %i, %behind : index\n%end = arith.addi %moved, %after : index",
    "argument": """%given = arith.index_cast %past : i32 to index
    %moved = arith.addi %i, %given : index
    %end = arith.addi %moved, %after : index""",
}
"""The last key that a query sees: its own one or ``after`` behind it, moved by extents or by an argument."""
WINDOW = """{end}
    %reach = arith.addi %j, %before : index
    %first = arith.cmpi sle, %j, %end : index
    %near = arith.cmpi sgt, %reach, %end : index
    %both = arith.andi %first, %near : i1
    %u = arith.select %both, %t, {nothing} : f32"""


def source(of: Any, window: int, end: str, *, after: int = 0, nothing: str = "%nothing") -> str:
    """An attention in which a query sees so many keys, up to one ``after`` its own place, moved."""
    numbers = NUMBERS.format(before=window, after=after)
    text = of.text().replace("%e = tensor.empty", f"{numbers}%e = tensor.empty")
    text = text.replace(CAUSAL, WINDOW.format(end=ENDS[end], nothing=nothing))
    return str(text.replace("%o: tensor", "%past: i32, %o: tensor") if end == "argument" else text)


def expected(arrays: list[Any], window: int, moved: int) -> Any:
    """In float64: the last key of a query is its own place, moved."""
    scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125
    distances = np.arange(scores.shape[-1]) - np.arange(scores.shape[-2])[:, None] - moved
    scores = np.where((distances <= 0) & (distances > -window), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), arrays[2].astype("f8"))


def check(of: Any, program: Any, shape: tuple[int, int], window: int, moved: int, *, past: int | None = None) -> None:
    arrays = inputs(of, 1, *shape)
    given = arrays if past is None else [*arrays[:3], past, arrays[3]]
    got = program.call("f", *given).results[0].astype("f8")
    np.testing.assert_allclose(got, expected(arrays, window, moved), rtol=2e-3, atol=2e-3, err_msg=str((shape, moved)))


SHAPES = ((1, 1), (5, 300), (150, 150), (300, 300), (200, 70))
OF = Attention(group=1, mask="causal")


@pytest.mark.parametrize("nothing", ["%nothing", "%low"])
@pytest.mark.parametrize("window", [1, 16, 100, 1000])
def test_windows(window: int, nothing: str) -> None:
    """Rows that see no key, where there are fewer keys than queries, are no numbers, or, with low ones, steps."""
    text = source(OF, window, "own", nothing=nothing)
    (tile,) = tiles(chosen(text, ((8, 0),)), "mma-flash")
    assert tile.endswith(f", causal, window {window}")
    program = build(text, options=AMPERE)
    for shape in SHAPES:
        if nothing == "%nothing" or shape[0] < shape[1] + window:
            check(OF, program, shape, window, 0)
    if nothing == "%low" and window == 1:
        arrays = inputs(OF, 1, 90, 70)
        want = arrays[2].astype("f8").mean(2)[:, :, None]
        got = program.call("f", *arrays).results[0][:, :, 0, 70:].astype("f8")
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("window", "after"), [(129, 64), (8, 3), (5, -2)])
def test_windows_that_do_not_end_at_the_query(window: int, after: int, backwards: bool) -> None:
    """Encoders look ahead, too."""
    text = source(OF, window, "own", after=after)
    (tile,) = tiles(chosen(text, ((8, 0),)), "mma-flash")
    assert tile.endswith(f"{f'{after} ahead' if after > 0 else 'causal'}, window {window}")
    program = build(text, backwards=backwards, options=AMPERE)
    for shape in SHAPES:
        check(OF, program, shape, window, after)


@pytest.mark.parametrize("nothing", ["%nothing", "%low"])
@pytest.mark.parametrize("window", [40, 5000])
def test_keys_that_were_there_before(window: int, nothing: str) -> None:
    """The last query sees the last key; few queries share the keys that they see among blocks."""
    text = source(OF, window, "dims", nothing=nothing)
    kernels = chosen(text, ((8, 0),))
    assert [each.schedule for each in kernels if each.schedule in ("decode", "mma-flash")] == ["decode", "mma-flash"]
    program = build(text, options=AMPERE)
    for shape in ((1, 1), (1, 700), (7, 600), (16, 16), (17, 160), (150, 301)):
        check(OF, program, shape, window, shape[1] - shape[0])
    if nothing == "%nothing":
        for shape in ((40, 7), (150, 60), (9, 3)):
            check(OF, program, shape, window, shape[1] - shape[0])


@pytest.mark.parametrize("nothing", ["%nothing", "%low"])
def test_a_place_that_the_call_gives(nothing: str) -> None:
    """Of a cache: keys behind it are there, and hidden; so may all keys be."""
    program = build(source(OF, 30, "argument", nothing=nothing), options=AMPERE)
    for queries, past in ((1, 0), (1, 299), (3, 77), (40, 0), (40, 111), (20, 290)):
        check(OF, program, (queries, 300), 30, past, past=past)
    if nothing == "%nothing":
        for queries, past in ((3, -2), (40, -90), (2, 5000), (40, 320), (1, 1 << 30), (40, -(1 << 30))):
            check(OF, program, (queries, 300), 30, past, past=past)


def test_a_place_in_device_memory_is_not_waited_for() -> None:
    """Host code would have to read it: all keys are visited, and compared."""
    text = source(OF, 30, "argument").replace("%past: i32", "%places: tensor<1xi32>")
    text = text.replace("%e = tensor.empty", "%past = tensor.extract %places[%c0] : tensor<1xi32>\n  %e = tensor.empty")
    assert not any(", causal" in each for each in tiles(chosen(text, ((8, 0),)), "mma-flash"))
    program, arrays = build(text, options=AMPERE), inputs(OF, 1, 3, 300)
    done = program.call("f", *arrays[:3], np.int32([77]), arrays[3])
    assert done.loads == 0
    np.testing.assert_allclose(done.results[0].astype("f8"), expected(arrays, 30, 77), rtol=2e-3, atol=2e-3)


def test_a_window_and_an_array() -> None:
    of = Attention(group=1, mask="causal-array")
    first, last = CAUSAL.splitlines()
    form = WINDOW.format(end=ENDS["own"], nothing="%nothing").replace("%both, %t", "%both, %added")
    numbers = NUMBERS.format(before=40, after=0)
    text = of.text().replace("%e = tensor.empty", f"{numbers}%e = tensor.empty")
    text = text.replace(first, form).replace(last.replace("%t", "%added"), "")
    (tile,) = tiles(chosen(text, ((8, 0),)), "mma-flash")
    assert tile.endswith(", causal, window 40")
    arrays = inputs(of, 1, 150, 200)
    scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125
    distances = np.arange(200) - np.arange(150)[:, None]
    scores = np.where((distances <= 0) & (distances > -40), scores + arrays[3][:, None, None, None], -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        want = np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), arrays[2].astype("f8"))
    got = build(text, options=AMPERE).call("f", *arrays).results[0].astype("f8")
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "of", [Attention(group=3, queries=1, mask="window", window=50), Attention(group=3, mask="window", window=50)]
)
def test_one_query_reads_the_keys_that_it_sees(of: Any) -> None:
    """Of a query alone no place is asked for; what it does not see may be anything."""
    kernels = chosen(of.text(), ((8, 0),))
    assert kernels[0].schedule == "decode"
    arrays = inputs(of, 3, 1, 700)
    want = expected(arrays, 50, 699)
    for each in arrays[1:3]:
        each[:, :, :600] = np.nan
    got = build(of.text(), options=AMPERE).call("f", *arrays).results[0].astype("f8")
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


def test_the_same_source_gives_the_same_host_code() -> None:
    """Whatever the order in which numbers that move places lie in memory."""
    text = source(OF, 30, "dims")
    assert len({lower(text, capabilities=((8, 0),)).host_ir for _ in range(4)}) == 1


SAME_NUMBER = """%moved = arith.addi %{i}, {given} : {kind}
    %end = arith.addi %{j}, {given} : {kind}
    %seen = arith.cmpi sle, %end, %moved : {kind}
    %u = arith.select %seen, %t, %nothing : f32"""
WORDS = "%a = arith.index_cast %i : index to i32\n    %b = arith.index_cast %j : index to i32\n    "


def moved_alike(kind: str) -> str:
    """Places of both sides are moved by the argument."""
    long = "%given = arith.index_cast %past : i32 to index\n    "
    i, j, given, before = ("a", "b", "%past", WORDS) if kind == "i32" else ("i", "j", "%given", long)
    form = before + SAME_NUMBER.format(i=i, j=j, given=given, kind=kind)
    return str(OF.text().replace(CAUSAL, form).replace("%o: tensor", "%past: i32, %o: tensor"))


@pytest.mark.parametrize("kind", ["i32", "index"])
def test_a_number_that_moves_keys_and_queries(kind: str) -> None:
    """It cancels out, but where one of them wraps and the other one does not."""
    text = moved_alike(kind)
    assert any(each.endswith(", causal") for each in tiles(chosen(text, ((8, 0),)), "mma-flash"))
    program = build(text, options=AMPERE)
    for past in (7, -300, (1 << 31) - 100):
        arrays = inputs(OF, 1, 40, 130)
        dtype = "i4" if kind == "i32" else "i8"
        queries, keys = (np.arange(count, dtype="i8") + past for count in (40, 130))
        seen = keys.astype(dtype) <= queries.astype(dtype)[:, None]
        scores = np.einsum("bhgmd,bhnd->bhgmn", *(each.astype("f8") for each in arrays[:2])) * 0.125
        weights = np.where(seen, np.exp(scores), 0)
        want = np.einsum("bhgmn,bhnw->bhgmw", weights / weights.sum(-1, keepdims=True), arrays[2].astype("f8"))
        got = program.call("f", *arrays[:3], past, arrays[3]).results[0].astype("f8")
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3, err_msg=str(past))


FAR = """%past1 = arith.addi %given, %given : index
    %late = arith.addi %j, %past1 : index
    %early = arith.subi %i, %past1 : index
    %seen = arith.cmpi sle, %late, %early : index
    %u = arith.select %seen, %t, %nothing : f32"""


def test_sides_that_fit_may_be_too_far_from_each_other() -> None:
    """Each is a place and a number twice; their distance has it four times."""
    text = moved_alike("index").replace(SAME_NUMBER.format(i="i", j="j", given="%given", kind="index"), FAR)
    assert "%early" in text
    assert not any(", causal" in each for each in tiles(chosen(text, ((8, 0),)), "mma-flash"))
