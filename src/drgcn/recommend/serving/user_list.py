"""Which users lists are wanted for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.serving.id_lookup import IdLookup

_NAMED = 5


def read_ids(path: Path, column: str | None = None) -> Any:
    """A column of ids from a parquet or CSV file.

    Args:
        path: The file; CSV with a line of names.
        column: Name of the column. (default: ``user``, ``id``, or the only one)
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            names = parquet.ParquetFile(path).schema_arrow.names
            column = _column(names, column, path)
            found = parquet.read_table(path, columns=[column])[column]
        elif path.suffix.lower() in (".csv", ".tsv"):
            parsing = csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            with csv.open_csv(path, parse_options=parsing) as reader:
                names = reader.schema.names
            column = _column(names, column, path)
            # As text: 007 is not 7, and an empty field is no id.
            converting = csv.ConvertOptions(
                include_columns=[column],
                column_types={column: pa.large_string()},
                strings_can_be_null=True,
                null_values=[""],
            )
            found = csv.read_csv(path, parse_options=parsing, convert_options=converting)[column]
        else:
            raise InputError(f"Expected ids in .parquet, .csv or .tsv; found {path.name}.")
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).partition(". ")[0]
        raise InputError(
            f"Expected a whole table of ids in {path}; it is missing, cut off or damaged "
            f"({reason})."
        ) from None
    if not len(found):
        raise InputError(f"Expected at least one id in {path}; it has no rows.")
    return found


def known_rows(
    lookup: IdLookup, ids: Any, skip_unknown: bool = False, option: str = "skip_unknown"
) -> tuple[Tensor, int]:
    """The rows of ids, and how many ids were left out because nobody knows them.

    Args:
        lookup: The ids that are known.
        ids: The ids wanted, a list or a pyarrow array.
        skip_unknown: Leave out unknown ids instead of refusing them.
        option: What the caller calls that, for the message.
    """
    rows = lookup.rows(ids)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown) and not skip_unknown:
        named = [repr(_plain(ids[int(place)])) for place in unknown[:_NAMED]]
        more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
        raise InputError(
            f"Expected ids of users that the export knows; found {len(unknown):,} others: "
            f"{', '.join(named)}{more}. Correct them, or skip them ({option})."
        )
    return torch.from_numpy(rows[rows >= 0]), len(unknown)


def _plain(value: Any) -> Any:
    return value.as_py() if hasattr(value, "as_py") else value


def _column(names: Sequence[str], wanted: str | None, path: Path) -> str:
    if wanted is not None:
        if wanted in names:
            return wanted
    elif "user" in names or "id" in names:
        return "user" if "user" in names else "id"
    elif len(names) == 1:
        return names[0]
    raise InputError(
        f"Expected a column {wanted or 'user'!r} in {path}; found {', '.join(names)}. Name it "
        f"with --column."
    )
