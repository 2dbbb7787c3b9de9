"""Graph of clicks between users and items, as CSR from both sides; writing it in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib import format as npy
from torch import Tensor

from drgcn._processes import side_by_side
from drgcn.errors import InputError
from drgcn.sampling.graph import CSRGraph, load_tensor
from drgcn.streams import mix

_CHUNK = 1 << 17  # clicks looked at together: they fit a cache


@dataclass(frozen=True, eq=False)
class ClickGraph:
    """Clicks between users and items, each pair once.

    Attributes:
        by_user: Row ``u`` holds the items of user ``u``, ascending. ``rowptr`` is int64, ``col``
            int32 where both sides have fewer than 2**31 nodes.
        by_item: Row ``i`` holds the users of item ``i``, ascending.
        days: The day of each click, int16, in the order of ``by_user.col``; ``None`` if unknown.
    """

    by_user: CSRGraph
    by_item: CSRGraph
    days: Tensor | None = None

    def __post_init__(self) -> None:
        one, other = self.by_user, self.by_item
        sizes = (one.num_rows, one.num_cols, one.num_entries)
        if sizes != (other.num_cols, other.num_rows, other.num_entries):
            raise InputError(
                f"Expected {sizes} users, items and clicks from both sides; found "
                f"{(other.num_cols, other.num_rows, other.num_entries)} by item."
            )
        if self.days is not None and self.days.shape != one.col.shape:
            raise InputError(
                f"Expected one day for each of {one.num_entries} clicks; found "
                f"{self.days.numel()}."
            )

    @classmethod
    def from_pairs(
        cls,
        users: Tensor,
        items: Tensor,
        num_users: int,
        num_items: int,
        days: Tensor | None = None,
    ) -> ClickGraph:
        """From one user and one item for each click, in any order and on any device.

        A pair that occurs more than once is kept once, with the first of its days.

        Args:
            users: Users ``[clicks]``, from 0 to ``num_users - 1``.
            items: Items ``[clicks]``, from 0 to ``num_items - 1``.
            num_users: Number of users; some may have no click.
            num_items: Number of items; some may have no click.
            days: Day of each click ``[clicks]``, whole numbers that fit 16 bits.
        """
        _check_pairs(users, items, num_users, num_items, days)
        key = users.long() * num_items + items
        if days is not None:
            days = days.to(torch.int16)
        if bool((key[1:] <= key[:-1]).any()):  # what comes in order needs no sort
            key, order = key.sort()
            days = None if days is None else days[order]
            del order
            key, days = _once(key, days)
        kind = torch.int32 if max(num_users, num_items) < 2**31 else torch.int64
        counts = torch.bincount(key // num_items, minlength=num_users)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        by_user = CSRGraph(rowptr, (key % num_items).to(kind), num_items)
        return cls(by_user, transposed(by_user), days)

    @classmethod
    def load(cls, folder: Path | str, mmap: bool = True) -> ClickGraph:
        """Load what :meth:`save` wrote: mapped and read as needed, or read into memory at once.

        All clicks are looked at once, in pieces.

        Raises:
            InputError: If a file is damaged, or the two sides do not hold the same clicks.
        """
        folder = Path(folder)
        by_user, by_item = (CSRGraph.open(folder / side, mmap) for side in ("by_user", "by_item"))
        path = folder / "days.npy"
        days = load_tensor(path, mmap) if path.exists() else None
        if days is not None and days.dtype != torch.int16:
            raise InputError(f"Expected days of 16 bits in {path}; found {days.dtype}.")
        graph = cls(by_user, by_item, days)
        _check_sides(graph, folder)
        return graph

    def save(self, folder: Path | str) -> None:
        """Write ``by_user/``, ``by_item/`` and ``days.npy``, all plain arrays."""
        folder = Path(folder)
        self.by_user.save(folder / "by_user")
        self.by_item.save(folder / "by_item")
        if self.days is not None:
            np.save(folder / "days.npy", self.days.cpu().numpy())

    @property
    def num_users(self) -> int:
        """Number of users, those without clicks included."""
        return self.by_user.num_rows

    @property
    def num_items(self) -> int:
        """Number of items, those without clicks included."""
        return self.by_user.num_cols

    @property
    def num_clicks(self) -> int:
        """Number of pairs."""
        return self.by_user.num_entries

    @property
    def device(self) -> torch.device:
        """Device of the graph."""
        return self.by_user.col.device

    @cached_property
    def day_range(self) -> tuple[int, int]:
        """The first and the last day."""
        if self.days is None or not self.days.numel():
            raise InputError("Expected clicks with days; found none. Give a time column.")
        return int(self.days.min()), int(self.days.max())

    def until(self, day: int) -> ClickGraph:
        """The clicks before a day, between the same users and items."""
        return self._where(self._known_days() < day)

    def on(self, day: int) -> ClickGraph:
        """The clicks of a day, between the same users and items."""
        return self._where(self._known_days() == day)

    def days_of(self, part: ClickGraph) -> Tensor:
        """The day of each click of a part, which may number its days otherwise ``[clicks]``."""
        whole, wanted = self.pairs(), part.pairs()
        if part.by_user.num_cols != self.num_items or not len(whole):
            raise InputError("Expected a part of these clicks; found others.")
        place = torch.searchsorted(whole, wanted).clamp(max=len(whole) - 1)
        if not bool((whole[place] == wanted).all()):
            raise InputError("Expected a part of these clicks; found others.")
        return self._known_days()[place]

    def pairs(self) -> Tensor:
        """``user * num_items + item`` of each click, ascending."""
        return self.by_user.row * self.num_items + self.by_user.col

    def to(self, device: torch.device | str) -> ClickGraph:
        """The same graph on another device."""
        days = None if self.days is None else self.days.to(device)
        return ClickGraph(self.by_user.to(device), self.by_item.to(device), days)

    def _known_days(self) -> Tensor:
        if self.days is None:
            raise InputError("Expected clicks with days; found none. Give a time column.")
        return self.days

    def _where(self, kept: Tensor) -> ClickGraph:
        before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
        rowptr = before[self.by_user.rowptr.long()].to(self.by_user.rowptr.dtype)
        by_user = CSRGraph(rowptr, self.by_user.col[kept], self.num_items)
        return ClickGraph(by_user, transposed(by_user), self._known_days()[kept])


def _check_sides(graph: ClickGraph, folder: Path) -> None:
    """Refuse rows that are not ascending, and sides with different clicks."""
    users, items = graph.num_users, graph.num_items
    if users * items >= 2**63:
        raise InputError(f"Expected fewer than 2**63 pairs in {folder}; found {users} x {items}.")

    def checked_sum(name: str) -> int:
        """Look at one side; return a number that is the same for the same clicks in any order."""
        side: CSRGraph = getattr(graph, name)
        total, last = 0, -1
        for row, col in entries(side):
            place = row * side.num_cols + col
            if int(place[0]) <= last or bool((place[1:] <= place[:-1]).any()):
                raise InputError(
                    f"Expected each row of {folder / name} in ascending order; found others. The "
                    f"folder is damaged: make it again."
                )
            last = int(place[-1])
            pair = place if name == "by_user" else col * items + row
            total += int(mix(pair).sum())
        return total % 2**64

    # Pieces are so small that torch's threads would mostly wait for each other.
    sums = side_by_side(checked_sum, ("by_user", "by_item"), min(torch.get_num_threads(), 2))
    if sums[0] != sums[1]:
        raise InputError(
            f"Expected the same clicks by user and by item in {folder}; found others. The folder "
            f"is damaged: make it again."
        )


def entries(side: CSRGraph) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield row and column of the entries in pieces, so that memory stays small."""
    for begin in range(0, side.num_entries, _CHUNK):
        col = side.col[begin : begin + _CHUNK].long()
        end = begin + col.numel()
        bounds = side.rowptr.new_tensor([begin, end])
        first = int(torch.searchsorted(side.rowptr, bounds[:1], right=True)) - 1
        last = int(torch.searchsorted(side.rowptr, bounds[1:]))
        counts = side.rowptr[first : last + 1].clamp(begin, end).diff()
        yield torch.arange(first, last).repeat_interleave(counts, output_size=end - begin), col


def _once(key: Tensor, days: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Each key of a sorted list once, with the least of its days."""
    first = torch.cat([key.new_ones(1, dtype=torch.bool), key[1:] != key[:-1]])
    if bool(first.all()):
        return key, days
    if days is not None:
        place = first.cumsum(0) - 1
        least = torch.full((int(place[-1]) + 1,), 2**15, dtype=torch.int32, device=key.device)
        days = least.scatter_reduce(0, place, days.int(), "amin").to(torch.int16)
    return key[first], days


def _check_pairs(
    users: Tensor, items: Tensor, num_users: int, num_items: int, days: Tensor | None
) -> None:
    sides = (("users", users, num_users), ("items", items, num_items))
    for name, ids, count in sides:
        if ids.dim() != 1 or ids.is_floating_point() or ids.numel() != users.numel():
            raise InputError(
                f"Expected {name} as one list of whole numbers, as long as users; found "
                f"{ids.dtype} of shape {list(ids.shape)} beside {list(users.shape)}."
            )
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < count:
            raise InputError(
                f"Expected {name} from 0 to {count - 1}; found {int(ids.min())} to "
                f"{int(ids.max())}."
            )
    if num_users * num_items >= 2**63:
        raise InputError(
            f"Expected fewer than 2**63 pairs of users and items; found {num_users} times "
            f"{num_items}."
        )
    if days is None:
        return
    if days.shape != users.shape or days.is_floating_point():
        raise InputError(
            f"Expected one whole day a click; found {days.dtype} of shape {list(days.shape)} for "
            f"{users.numel()} clicks."
        )
    if days.numel() and not -(2**15) <= int(days.min()) <= int(days.max()) < 2**15:
        raise InputError(
            f"Expected days that fit 16 bits; found {int(days.min())} to {int(days.max())}. "
            "Count from a later day zero."
        )


def transposed(graph: CSRGraph) -> CSRGraph:
    """Rows for columns; entries of a row come in the order of their old rows.

    Values are not carried over.
    """
    if not graph.col.is_cuda:
        try:
            return _counted(graph)
        except ImportError:
            pass
    order = graph.col.sort(stable=True).indices
    counts = torch.bincount(graph.col, minlength=graph.num_cols)
    rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    row = graph.row.to(graph.col.dtype)[order]
    return CSRGraph(rowptr.to(graph.rowptr.dtype), row, graph.num_rows)


def _counted(graph: CSRGraph) -> CSRGraph:
    """One counting sort: several times faster than sorting on the CPU, and stable like it."""
    from scipy import sparse

    ones = np.ones(graph.num_entries, dtype=np.int8)
    parts = (ones, graph.col.numpy(), graph.rowptr.numpy())
    by_column = sparse.csr_matrix(parts, shape=(graph.num_rows, graph.num_cols)).tocsc()
    return CSRGraph(
        torch.from_numpy(by_column.indptr).to(graph.rowptr.dtype),
        torch.from_numpy(by_column.indices).to(graph.col.dtype),
        graph.num_rows,
    )


@contextmanager
def npy_stream(path: Path, dtype: npt.DTypeLike) -> Iterator[Callable[[npt.NDArray[Any]], None]]:
    """Yield a function that appends one-dimensional pieces to a file for ``np.load``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"descr": npy.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
    length = 0

    def append(piece: npt.NDArray[Any]) -> None:
        nonlocal length
        file.write(np.ascontiguousarray(piece, dtype=dtype).data)
        length += len(piece)

    with path.open("w+b") as file:
        npy.write_array_header_1_0(file, header | {"shape": (0,)})
        yield append
        # NumPy leaves room in the header for a longer first axis: it is written over in place.
        file.seek(0)
        npy.write_array_header_1_0(file, header | {"shape": (length,)})


def write_clicks(
    batches: Iterable[Any], folder: Path, num_users: int, num_items: int, with_days: bool
) -> int:
    """Write what :meth:`ClickGraph.load` reads.

    Args:
        batches: Record batches with columns ``u``, ``i`` and perhaps ``d``, sorted by these.
        folder: Where to write.
        num_users: Number of users.
        num_items: Number of items.
        with_days: Whether there are days.

    Returns:
        Number of different pairs. Of a pair that comes more than once the first is kept.
    """
    kind = np.int32 if max(num_users, num_items) < 2**31 else np.int64
    counts = np.zeros(num_users + 1, dtype=np.int64)
    last = (-1, -1)
    with ExitStack() as stack:
        add_col = stack.enter_context(npy_stream(folder / "by_user" / "col.npy", kind))
        if with_days:
            add_days = stack.enter_context(npy_stream(folder / "days.npy", np.int16))
        for batch in batches:
            if not batch.num_rows:
                continue
            users, items = batch["u"].to_numpy(), batch["i"].to_numpy()
            new = np.empty(len(users), dtype=bool)
            new[0] = (users[0], items[0]) != last
            new[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
            last = (users[-1], items[-1])
            add_col(items[new])
            if with_days:
                add_days(batch["d"].to_numpy()[new])
            first = int(users[0])
            here = np.bincount(users[new] - first)  # sorted: a batch spans few users
            counts[first + 1 : first + 1 + len(here)] += here
    rowptr = np.cumsum(counts, out=counts)
    np.save(folder / "by_user" / "rowptr.npy", rowptr)
    starts, entries = (
        load_tensor(folder / "by_user" / f"{name}.npy") for name in ("rowptr", "col")
    )
    by_user = CSRGraph(starts, entries, num_items)
    by_user.write_facts(folder / "by_user")
    transposed(by_user).save(folder / "by_item")
    return int(rowptr[-1])
