"""Rows of text in columns, as wide as what is in them."""

from collections.abc import Collection, Iterator, Sequence

from loom_ia.access.cli.terminal import printable


def columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> Iterator[str]:
    """Write rows of as many cells each; the columns of `right` hold numbers."""
    shown = [[" ".join(printable(cell).split("\n")) for cell in row] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
    for row in shown:
        cells = (
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
