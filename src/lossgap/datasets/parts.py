"""Data sets that their publishers divided into training and test rows."""

from collections.abc import Sequence
from typing import Literal

from lossgap.errors import require

Part = Literal["train", "test"]
PARTS: tuple[Part, ...] = ("train", "test")


def chosen(name: str, parts: Sequence[Part] | None, *, there: Sequence[Part]) -> Sequence[Part]:
    """The parts to read, in the publisher's order: those asked for, or those that are `there`."""
    require(
        parts is None or (parts and not isinstance(parts, str) and set(parts) <= set(PARTS)),
        f"{name}: parts is {parts!r}.",
        'Use ("train", "test"), one of them in a tuple of its own, or None for those that are there.',
    )
    return [part for part in PARTS if part in parts] if parts else there or PARTS
