"""A dispatch region: linalg operations that one kernel computes, as values that flow between them.

In: operations that forming.py has put together. Out: a graph: sources in memory, products of members.

Rows and columns: the kernel's space is rows x columns. ``FULL`` values have an element for each point, ``ROW`` values
one for each row, ``COLUMN`` values one for each column, ``SCALAR`` values one in all; ``PART`` values are indexed by
some of the loops.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from aot.lower.fast.regions.extents import Key
from aot.lower.fast.regions.operations import Operation
from aot.lower.fast.regions.reducers import Reducer

FULL, ROW, COLUMN, SCALAR, PART = "full", "row", "column", "scalar", "part"


@dataclass(frozen=True, eq=False)
class Source:
    """Memory, or a number of host code, that the region reads."""

    value: ir.Value
    kind: str
    loops: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Member:
    """One operation of the region."""

    operation: Operation
    kind: str
    """FULL, ROW or COLUMN: the space of its results."""
    nodes: tuple[Node | None, ...]
    """What each operand reads; None where nothing is read."""
    reducer: Reducer | None
    """Set when it reduces the columns."""
    level: int
    """Reductions that must be done before this one's results are known."""


@dataclass(frozen=True, eq=False)
class Product:
    """One result of a member."""

    member: Member
    number: int
    """Of the result."""

    @property
    def kind(self) -> str:
        return self.member.kind


Node = Source | Product


@dataclass(frozen=True)
class Store:
    """A product that other code may see."""

    product: Product
    memory: ir.Value
    loops: tuple[int, ...]


@dataclass
class Region:
    """All of it."""

    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    turned: bool = False
    """Whether the rows are reduced: results are one for each column then."""
    members: list[Member] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    dead: list[ir.Operation] = field(default_factory=list)
    """Allocations, and what frees them, that only the members used."""
    freed: list[ir.Operation] = field(default_factory=list)
    """Deallocations among the members, of buffers that other code uses, too: they belong after the kernel."""
    number: int = 0
    """Among the regions of its function, from 1 on."""

    @property
    def kind(self) -> str:
        """Class of the work, as reports name it."""
        if not self.reductions:
            return "pointwise"
        return "columns" if self.turned else "rows"

    @property
    def reductions(self) -> list[Member]:
        return [member for member in self.members if member.reducer is not None]

    @property
    def narrow(self) -> bool:
        """Whether all that comes out of it are floats of fewer bits than f32, which hide small errors."""
        kinds = [ir.MemRefType(store.memory.type).element_type for store in self.stores]
        return all(isinstance(kind, ir.FloatType) and kind.width < 32 for kind in kinds)

    @property
    def last(self) -> ir.Operation:
        """The operation at whose place the kernel is launched."""
        return self.members[-1].operation.op

    def wants(self, member: Member, number: int) -> bool:
        """Whether a store or another member reads one of a member's results."""
        nodes = [*(store.product for store in self.stores), *(node for each in self.members for node in each.nodes)]
        return any(isinstance(node, Product) and (node.member, node.number) == (member, number) for node in nodes)

    def sources(self) -> list[Source]:
        """Sources, each once, in the order of reading."""
        found = [node for member in self.members for node in member.nodes if isinstance(node, Source)]
        return list(dict.fromkeys(found))


def level(node: Node | None) -> int:
    """Reductions that come before a value is known."""
    return node.member.level if isinstance(node, Product) else 0
