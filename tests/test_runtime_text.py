"""Printing, memref.copy, the async runtime and conversions of halves, on the fake driver."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from fakecuda import Core

HOST_SYNC, SERIAL = 2, 16
E_INTERNAL = -4


# ------------------------------------------------------------------ printing and memref.copy


@pytest.mark.parametrize("make", ["gpualloc 8", "host 8", "gpualloc 8 0 1"], ids=["device", "host", "shared"])
def test_print_reads_memory_of_any_kind(core: Core, make: str) -> None:
    bits = struct.unpack("<i", struct.pack("<f", 1.5))[0]
    second = f"{make} | memset32 $0 {bits} 2"
    result = core.call(f"{second} | print $0 2")
    assert result.code == 0
    heading, body, end = result.out.split("\n")
    address = f"0x{result.values[0]:x}"
    assert heading == f"Unranked Memref base@ = {address} rank = 1 offset = 0 sizes = [2] strides = [1] data = "
    assert (body, end) == ("[1.5,  1.5]", "")
    assert core.fake("live", 0) == 0


SIX = np.arange(6, dtype=np.float32)
I8, I16, I32, I64, IND, F16, BF16, F32, F64, C32, C64 = range(11)


@pytest.mark.parametrize(
    ("kind", "values", "rest", "text"),
    [  # data, offset, rank, sizes and strides, text
        pytest.param(I8, np.array([-1, 65], np.int8), "0 1 2 1", "[-1,  65]", id="i8 is a number"),
        pytest.param(I16, np.array([-300], np.int16), "0 1 1 1", "[-300]", id="i16"),
        pytest.param(I32, np.array([1, 2, 3], np.int32), "0 1 3 1", "[1,  2,  3]", id="i32"),
        pytest.param(I64, np.array([-(2**62)], np.int64), "0 0", "[-4611686018427387904]", id="i64, rank 0"),
        pytest.param(IND, np.array([2**64 - 1], np.uint64), "0 1 1 1", "[18446744073709551615]", id="index"),
        pytest.param(F16, np.array([0.1, -2], np.float16), "0 1 2 1", "[0.0999756,  -2]", id="f16"),
        pytest.param(BF16, np.array([3.14], ml_dtypes.bfloat16), "0 1 1 1", "[3.14062]", id="bf16"),
        pytest.param(F32, np.array([1e10, np.inf], np.float32), "0 1 2 1", "[1e+10,  inf]", id="f32"),
        pytest.param(F64, np.array([1 / 3, -np.inf], np.float64), "0 1 2 1", "[0.333333,  -inf]", id="f64"),
        pytest.param(C32, np.array([1 + 2j], np.complex64), "0 1 1 1", "[(1,2)]", id="complex of f32"),
        pytest.param(C64, np.array([1.5 - 2j, 0], np.complex128), "0 1 2 1", "[(1.5,-2),  (0,0)]", id="complex of f64"),
        pytest.param(F32, SIX, "0 2 2 3 3 1", "[[0,   1,   2], \n [3,   4,   5]]", id="rows"),
        pytest.param(F32, SIX, "1 2 2 2 3 1", "[[1,   2], \n [4,   5]]", id="offset, strides"),
        pytest.param(F32, SIX, "0 2 3 2 1 3", "[[0,   3], \n [1,   4], \n [2,   5]]", id="columns"),
        pytest.param(F32, np.array(range(4), np.float32), "3 1 4 -1", "[3,  2,  1,  0]", id="backwards"),
        pytest.param(
            F32,
            np.array(range(8), np.float32),
            "0 3 2 2 2 4 2 1",
            "[[[0,    1], \n  [2,    3]], \n [[4,    5], \n  [6,    7]]]",
            id="three axes",
        ),
        pytest.param(F32, np.array([7], np.float32), "0 2 1 1 1 1", "[[7]]", id="one element"),
        pytest.param(F32, np.array([7], np.float32), "0 2 3 0 1 1", "[[]]", id="empty"),
    ],
)
@pytest.mark.parametrize("place", ["host", "device"])
def test_arrays_print_as_upstream_prints_them(
    core: Core, kind: int, values: np.ndarray, rest: str, text: str, place: str
) -> None:
    make = {"host": f"host {values.nbytes}", "device": f"gpualloc {values.nbytes}"}[place]
    padded = values.tobytes() + bytes(-values.nbytes % 2)
    halves = struct.unpack(f"<{len(padded) // 2}H", padded)
    size = max(len(padded), 2)
    make = make.replace(str(values.nbytes), str(size))
    fill = " | ".join(f"poke16 $0 {2 * i} {half}" for i, half in enumerate(halves))
    result = core.call(f"{make} | {fill} | show {kind} $0 {rest}")
    assert (result.code, result.message) == (0, "")
    offset, rank, *numbers = rest.split()
    sizes, strides = ", ".join(numbers[: int(rank)]), ", ".join(numbers[int(rank) :])
    heading = f"rank = {rank} offset = {offset} sizes = [{sizes}] strides = [{strides}] data = "
    once = f"Unranked Memref base@ = 0x{result.values[0]:x} {heading}\n{text}\n"
    assert result.out == 2 * once
    assert core.fake("live", 0) == 0


def test_vector_print(core: Core) -> None:
    assert core.call("vector -3").out == "( -3, 18446744073709551613, 0.1, 1e-07, 1, 3.14062 )\n"


def test_text_is_flushed_when_the_call_ends(core: Core) -> None:
    assert core.call("say").out == "said\n"
    assert core.call("say | oops 1").out == "said\n"


@pytest.mark.parametrize(
    ("source", "target", "copies"),
    [
        pytest.param("host 48", "host 48", 0, id="host to host"),
        pytest.param("gpualloc 48", "host 48", 2, id="device to host"),
        pytest.param("host 48", "gpualloc 48", 2, id="host to device"),
    ],
)
def test_memref_copy(core: Core, source: str, target: str, copies: int) -> None:
    script = f"{source} | {target} | memset32 $0 5 12 | memset32 $1 1 12 | copy $0 $1 2 4 6 4"
    result = core.call(f"{script} | copy $1 $0 2 4 4 6", flags=HOST_SYNC)
    assert (result.code, result.message) == (0, "")
    assert core.fake("count", "cuMemcpyAsync") == 2 * copies


def test_dense_memref_copy_is_one_copy(core: Core) -> None:
    assert core.call("gpualloc 64 | gpualloc 64 | copy $0 $1 4 4 4 4").code == 0
    assert core.fake("count", "cuMemcpyAsync") == 1


# ------------------------------------------------------------------ async runtime


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        pytest.param("token | then $2 $0 | emplace $2", 1, id="waits until it is there"),
        pytest.param("token | emplace $2 | then $2 $0 | drop $2", 1, id="is there already"),
        pytest.param("token | emplace $2 | await $2", 0, id="host waits"),
        pytest.param("group 0 | awaitgroup $2 | then $2 $0 1", 1, id="empty group"),
        pytest.param("token | group 1 | join $2 $3 | then $3 $0 1 | emplace $2", 1, id="group of one"),
        pytest.param(
            "token | token | group 2 | join $2 $4 | join $3 $4 | then $4 $0 1 | emplace $3", 0, id="half a group"
        ),
    ],
)
def test_coroutines_run_in_place(core: Core, script: str, seen: int) -> None:
    result = core.call(f"host 4 | poke $0 0 | {script} | peek $0", flags=SERIAL)
    assert (result.code, result.message) == (0, "")
    assert result.values[-1] == seen


def test_errors_of_tokens_reach_their_group(core: Core) -> None:
    script = "token | group 1 | join $0 $1 | tokenerror $0 | iserror $1 1"
    assert core.call(script, flags=SERIAL).values[-1] == 1


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("token | thenfails $0 | then $0 0 | emplace $0", id="others wait"),
        pytest.param("token | group 1 | join $0 $1 | thenfails $0 | emplace $0", id="a group counts it"),
    ],
)
def test_nothing_is_left_of_a_call_that_a_coroutine_ends(core: Core, script: str) -> None:
    result = core.call(script, flags=SERIAL)
    assert (result.code, result.message) == (E_INTERNAL, "a coroutine fails")
    assert core.ask("grown", 500, script, SERIAL) < 500


def test_a_coroutine_may_drop_what_it_waited_for(core: Core) -> None:
    script = "host 4 | poke $0 0 | token | emplace $2 | group 1 | thendrops $4 | then $4 $0 1 | join $2 $4 | peek $0"
    assert core.call(script, flags=SERIAL).values[-2:] == [0, 1]


def test_waiting_for_what_nobody_provides_is_an_error(core: Core) -> None:
    result = core.call("token | value 16 | await $0", flags=SERIAL)
    assert (result.code, "nothing will provide" in result.message) == (E_INTERNAL, True)


# ------------------------------------------------------------------ f16 and bf16


def test_every_half_extends(core: Core) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    wide = np.array(core.ask("half", "__extendhfsf2", bits.tolist()), dtype=np.uint32).view(np.float32)
    assert np.array_equal(wide, bits.view(np.float16).astype(np.float32), equal_nan=True)


def interesting(word: type[np.unsignedinteger], number: type[np.floating], count: int = 20000) -> np.ndarray:
    """Bit patterns: any, and ones next to halves, their middles and the limits of f16 and bf16."""
    rng = np.random.default_rng(0)
    size = np.dtype(word).itemsize
    any_bits = rng.integers(0, 2 ** (8 * size), count, dtype=np.uint64).astype(word)
    halves = rng.integers(0, 65536, count // 2, dtype=np.uint64).astype(np.uint16)
    with np.errstate(invalid="ignore"):
        near = [halves.view(np.float16).astype(number), halves.view(ml_dtypes.bfloat16).astype(number)]
    exact = np.concatenate(near).view(word)
    step = word(1 << (12 if size == 4 else 41))
    with np.errstate(over="ignore"):  # unsigned words wrap around
        return np.concatenate([any_bits, exact, exact + step, exact + step + word(1), exact + step - word(1)])


@pytest.mark.parametrize(
    ("function", "target", "word", "number"),
    [
        ("__truncsfhf2", np.float16, np.uint32, np.float32),
        ("__truncdfhf2", np.float16, np.uint64, np.float64),
        ("__truncsfbf2", ml_dtypes.bfloat16, np.uint32, np.float32),
    ],
)
def test_rounding_to_halves(
    core: Core,
    function: str,
    target: type[np.generic],
    word: type[np.unsignedinteger],
    number: type[np.floating],
) -> None:
    bits = interesting(word, number)
    ours = np.array(core.ask("half", function, bits.tolist()), dtype=np.uint32).astype(np.uint16).view(target)
    with np.errstate(all="ignore"):
        theirs = bits.view(number).astype(target)
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    fine = ~np.isnan(theirs)
    assert np.array_equal(ours.view(np.uint16)[fine], theirs.view(np.uint16)[fine])


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        pytest.param(1.0 + 2.0**-8, 0x3F80, id="tie to even"),
        pytest.param(1.0 + 2.0**-8 + 2.0**-50, 0x3F81, id="a float would have lost what breaks the tie"),
        pytest.param(-(1.0 + 3 * 2.0**-8), 0xBF82, id="tie upwards"),
        pytest.param(3.5e38, 0x7F80, id="to infinity"),
        pytest.param(2.0**-133, 0x0001, id="least subnormal"),
        pytest.param(2.0**-134, 0x0000, id="tie to zero"),
        pytest.param(2.0**-134 * 1.0000001, 0x0001, id="above it"),
        pytest.param(5e-324, 0x0000, id="least double"),
    ],
)
def test_double_to_bf16_is_rounded_once(core: Core, value: float, bits: int) -> None:
    pattern = struct.unpack("<Q", struct.pack("<d", value))[0]
    assert core.ask("half", "__truncdfbf2", [pattern]) == [bits]
