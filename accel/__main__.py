"""Print which backends were built and which devices they can use: `python -m accel`."""

import sys

from accel.backends import Status, statuses

_HEAD = ("backend", "device", "built", "loadable", "reason")


def _cells(status: Status) -> tuple[str, ...]:
    words = ("no", "yes")
    return (
        status.backend,
        status.device or "-",
        words[status.built],
        words[status.loadable],
        status.reason,
    )


def table(rows: list[Status]) -> str:
    """Lay out one line a device, in columns."""
    lines = [_HEAD, *map(_cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    sys.stdout.write(table(statuses()) + "\n")
