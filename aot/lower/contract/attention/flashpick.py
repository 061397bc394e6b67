"""What the user wants of ``flash``, and whether that is possible.

In: a job, and a Pick. Out: a Shape; what is wrong with it; whether results go through shared memory.
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir

from aot.lower.contract.attention import attentionpick
from aot.lower.contract.attention.attentionpick import Pick
from aot.lower.contract.attention.flashjob import SQUARE, TALL, Attention, Layout, Shape
from aot.lower.contract.wgmma import wgmmafit
from aot.lower.contract.wgmma.wgmmatile import MOST_SHARED
from aot.lower.hostmodule import rtcalls

_QUERIES, _STEP, _MOST_KEYS = (SQUARE.queries, TALL.queries), 16, 256
"""Queries of a tile; what keys of a piece are multiples of."""


def asked(pick: Pick) -> Shape:
    """The shape that the user wants."""
    groups = pick.size("queries", SQUARE.queries) // (SQUARE.queries // SQUARE.groups)
    keys = pick.size("keys", (SQUARE if groups == SQUARE.groups else TALL).keys)
    return Shape(groups, keys, pick.size("stages", SQUARE.stages))


def misfit(job: Attention, pick: Pick) -> str:
    """All that is wrong with the shape that the user wants."""
    queries, shape = pick.size("queries", SQUARE.queries), asked(pick)
    found = []
    if queries not in _QUERIES:
        found.append(f"queries {queries} is not possible; {_QUERIES[0]} and {_QUERIES[1]} are")
    if shape.keys % _STEP or shape.keys > _MOST_KEYS:
        found.append(f"keys {shape.keys} is not possible; multiples of {_STEP} up to {_MOST_KEYS} are")
    if shape.stages < SQUARE.stages:
        found.append(f"stages {shape.stages} is not possible; at least {SQUARE.stages} are")
    sizes = {"queries": queries, "keys": shape.keys, "stages": shape.stages}
    room = Layout(replace(job, shape=shape, staged=stages_results(job))).bytes
    return "; ".join(found) or attentionpick.too_large(sizes, room, MOST_SHARED)


def stages_results(job: Attention) -> bool:
    """Whether TMA can store a job's results, of 16 bits."""
    (array, _), *others = job.output.epilogue.stores
    element = ir.MemRefType(array.memory.type).element_type
    return not others and wgmmafit.can_stage(job.output) and rtcalls.storage_bytes(element) == 2
