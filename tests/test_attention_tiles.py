"""Tiles of attention that ``aot.toml`` chooses, that ptxas leaves, and that ``aot tune`` tries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attention_source import Attention
from compiledsource import compiled
from cpurun import build
from test_attention import AMPERE, check, inputs
from test_wishes import kernels

from aot.errors import ConfigError
from aot.fatbins import spills
from aot.lower.tensor import Options
from aot.settings import config
from aot.settings.wishes import ROOMY, SIZES_OF, Dropped, Wish
from aot.tiling import Tiling
from aot.tuning import tunecandidates
from aot.tuning.tunechoice import TuneRequest, choosable

EXAMPLE = Path(__file__).parents[1] / "examples" / "kernels" / "attention.mlir"
HOPPER = Options(capabilities=((9, 0),))
DYNAMIC = Attention(depth=64, width=64)
WIDE = Attention(depth=128, width=128, mask="causal")


def tiles(of: Any, **options: Any) -> dict[str, list[str]]:
    """Of an attention's kernels, by schedule."""
    found: dict[str, list[str]] = {}
    for name, tiling in kernels(of.text(), replace(HOPPER, **options)):
        found.setdefault(name, []).append(tiling.text())
    return found


def wishes(table: str) -> tuple[Wish, ...]:
    return config.parse(f"edition = 1\n[source.s.function.f]\n{table}", "aot.toml").source("s").wishes


GRANTED = [
    (
        "flash",
        DYNAMIC,
        'schedule = "flash"\nqueries = 192\nkeys = 80\nstages = 3',
        "queries 192, keys 80",
        ", stages 3",
    ),
    ("rings", DYNAMIC, 'schedule = "flash"\nstages = 4', "queries 128, keys 128", ", stages 4"),
    ("causal", WIDE, 'schedule = "flash"\nkeys = 64\nstages = 4', "queries 128, keys 64", ", stages 4, causal"),
    ("one query", DYNAMIC, 'schedule = "hopper-decode"\nkeys = 64\nstages = 4', "rows 16, keys 64", ", threads 160"),
    ("of sm_80", DYNAMIC, 'schedule = "mma-flash"\nqueries = 64\nrows = 16', "queries 64, rows 16, keys 64", ""),
    ("few, of sm_80", DYNAMIC, 'schedule = "decode"\nkeys = 16', "rows 16, keys 16", ", threads 128"),
]


@pytest.mark.parametrize(("of", "table", "begin", "end"), [row[1:] for row in GRANTED], ids=[row[0] for row in GRANTED])
def test_a_tile_is_granted(of: Any, table: str, begin: str, end: str) -> None:
    (wish,) = wishes(table)
    found = tiles(of, wishes=(wish,))
    # For few queries there are two kernels, with clusters and without.
    texts = {each.removesuffix(", cluster") for each in found[wish.schedule]}
    assert len(texts) == 1
    assert texts.pop().startswith(begin)
    assert all(each.removesuffix(", cluster").endswith(end) for each in found[wish.schedule])
    better = {"mma-flash": "flash", "decode": "hopper-decode"}
    assert not found.get(better.get(wish.schedule, ""))


FEW, MANY = 'schedule = "decode"\nkeys = 48', 'schedule = "mma-flash"\nqueries = 64\nrows = 16\nkeys = 32'


@pytest.mark.parametrize(("table", "mask"), [(FEW, "array"), (MANY, ""), (MANY, "causal-array")])
def test_what_tiles_compute_is_right(table: str, mask: str) -> None:
    of = Attention(depth=32, width=32, mask=mask)
    program = build(of.text(), options=replace(AMPERE, wishes=wishes(table)))
    for queries, keys in ((1, 77), (3, 600), (77, 129)):
        check(of, program, inputs(of, 1, queries, keys))


REFUSED = [
    ("queries", DYNAMIC, 'schedule = "flash"\nqueries = 100', "queries 100 is not possible; 128 and 192 are"),
    (
        "all at once",
        DYNAMIC,
        'schedule = "flash"\nqueries = 1\nkeys = 20\nstages = 1',
        "queries 1 is .*; keys 20 is not possible; multiples of 16 up to 256 are; stages 1 is .* at least 2 are",
    ),
    ("room", WIDE, 'schedule = "flash"\nstages = 3', "stages 3 take 2.* bytes of shared memory, of which .* 232448"),
    ("of others", DYNAMIC, 'schedule = "flash"\nrows = 16', "has no size 'rows'; it has queries, keys, stages"),
    ("rows", DYNAMIC, 'schedule = "mma-flash"\nrows = 8', "rows 8 is not possible; 16 and 32 are"),
    ("warps", DYNAMIC, 'schedule = "mma-flash"\nqueries = 512', "queries 512 is .* multiples of rows 32 up to 256 are"),
    ("room everywhere", WIDE, 'schedule = "mma-flash"\nkeys = 96', "keys 96 take .* of which a block has 101376"),
    ("keys of few", DYNAMIC, 'schedule = "decode"\nkeys = 24', "keys 24 is not possible; multiples of 16 up to 128"),
    (
        "boxes",
        replace(DYNAMIC, turned=True),
        'schedule = "hopper-decode"\nkeys = 192',
        "keys 192 is not possible for keys below each other's elements; 64, 128 and 256 are",
    ),
    ("four warps", DYNAMIC, 'schedule = "hopper-decode"\nkeys = 96', "keys 96 .* multiples of 64 up to 256 are"),
    (
        "never few",
        WIDE,
        'schedule = "decode"',
        "no attention of it has schedule 'decode', which is for f16 and bf16 in images from sm_80 on; "
        "it has flash, mma-flash",
    ),
    ("sizes alone", DYNAMIC, "keys = 64", 'attention has schedules .*; for sizes of theirs, `schedule = "flash"` is'),
]


@pytest.mark.parametrize(("of", "table", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_tile_is_refused(of: Any, table: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"aot\.toml:2: \[source\.s\.function\.f\]: .*{message}"):
        tiles(of, wishes=wishes(table))


def test_attention_is_in_no_region() -> None:
    with pytest.raises(ConfigError, match="attention is in no region: it belongs into the function's own table"):
        wishes('[source.s.function.f.region.1]\nschedule = "flash"')


SPILLED = [
    ("flash", DYNAMIC, ["queries 128, keys 96, depth 64, width 64, stages 2"] * 2),
    ("flash", WIDE, ["queries 128, keys 96, depth 128, width 128, stages 2, causal"]),
    ("mma-flash", WIDE, ["queries 128, rows 32, keys 32, depth 128, width 128, stages 2, causal"]),
    ("decode", DYNAMIC, ["rows 16, keys 16, depth 64, width 64, stages 2, threads 128"]),
    ("hopper-decode", DYNAMIC, ["rows 16, keys 64, depth 64, width 64, stages 3, threads 160"] * 2),
]


@pytest.mark.parametrize(("schedule", "of", "others"), SPILLED)
def test_a_tile_that_spills_gives_way(schedule: str, of: Any, others: list[str]) -> None:
    first = [each for name, each in kernels(of.text(), HOPPER) if name == schedule]
    gone = [replace(each, remarks=(*each.remarks, ROOMY)) for each in first]
    found = tiles(of, dropped=tuple(Dropped("f", schedule, each) for each in gone))[schedule]
    assert [each.removesuffix(", cluster") for each in found] == others
    assert not {each.text() for each in first} & set(found)


def test_products_that_spill_get_room_once() -> None:
    tile = Tiling("contractions", 0, (("rows", 64),))
    assert spills._gives_way(Dropped("f", "mma", tile))
    assert not spills._gives_way(Dropped("f", "mma", replace(tile, remarks=(ROOMY,))))
    assert spills._gives_way(Dropped("f", "flash", replace(tile, kind="attention", remarks=(ROOMY,))))
    assert not spills._gives_way(Dropped("f", "general", replace(tile, kind="general")))


COMPILED = [
    ("a causal mask and an array", "sm_90", Attention(depth=128, width=128, mask="causal-array").text()),
    ("an array, other values", "sm_90", Attention(depth=128, width=64, mask="array").text()),
    (
        "known extents",
        "sm_120",
        Attention("f16", (1, 8), 4, 4096, 4096, depth=128, width=128, mask="causal").text(),
    ),
    ("a window", "sm_90", Attention("f16", (4, 16), 1, 4096, 4096, depth=128, width=128, mask="window").text()),
    ("step by step", "sm_80 sm_90", EXAMPLE.read_text()),
]


@pytest.mark.parametrize(("archs", "text"), [row[1:] for row in COMPILED], ids=[row[0] for row in COMPILED])
def test_no_kernel_spills(tmp_path: Path, archs: str, text: str) -> None:
    source = compiled(tmp_path, text, archs)
    assert source.fatbin is not None
    assert [used for _, _, used in source.fatbin.usage if used.spill_bytes] == []
    assert [note for note in source.notes if "(C7" in note] == []


def test_tiles_are_tried(tmp_path: Path) -> None:
    """For few queries and for many, where both are possible; of a GPU's best kernels only, and of no product."""
    (tmp_path / "s.mlir").write_text(Attention(group=1, depth=64, width=64).text())
    (found,) = [each for each in choosable(TuneRequest((str(tmp_path),), archs="sm_90")) if not each.region]
    assert {each.schedule for each in found.candidates} == {"flash", "hopper-decode"}
    assert (found.attention, found.default.text()) == (True, "as it is")
    for each in found.candidates:
        assert {name for name, _ in each.sizes} == set(SIZES_OF[each.schedule])
    older = tunecandidates.candidates("attention", "mma-flash", {"depth": 128, "width": 64})
    assert {dict(each.sizes)["keys"] for each in older} == {32, 48, 64}
    assert tunecandidates.candidates("attention", "decode-combine", {"width": 64}) == []
