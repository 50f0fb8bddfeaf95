"""From values to places on the paper, and ticks that a person would choose."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lossgap.charts.marks import text_width
from lossgap.errors import require

Numbers = Iterable[float]
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """Takes values from low…high to start…end, by themselves or by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def around(
        cls,
        values: Numbers,
        start: float,
        end: float,
        *,
        log: bool = False,
        tight: bool = False,
        room: float = 0.0,
        what: str = "values",
    ) -> "Scale":
        """Room for every finite value; ends at ticks unless `tight`, or `room` leaves a share free at both ends."""
        usable = [value for value in values if shows(value, log)]
        require(
            usable,
            f"charts: there is nothing to draw: no {what} is a finite {'positive ' if log else ''}number.",
            "Use a linear axis." if log else "Give at least one.",
        )
        low, high = min(usable), max(usable)
        if log:
            return cls(low / 1.15, high * 1.15, start, end, log=True) if not tight else cls(low, high, start, end, True)
        if low == high:
            low, high = low - (abs(low) * 0.1 or 1), high + (abs(high) * 0.1 or 1)
        if tight:
            return cls(low, high, start, end)
        if room:
            free = room * (high - low)
            return cls(low if low == 0 else max(0, low - free) if low > 0 else low - free, high + free, start, end)
        step = _step(low, high, 6)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end)

    def __call__(self, value: float) -> float:
        low, high, value = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (value - low) / ((high - low) or 1) * (self.end - self.start)

    def shows(self, value: float) -> bool:
        return shows(value, self.log)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most about so many values, with what to write beside them."""
        powers = self._powers(most) if self.log else []
        values = powers if len(powers) > 1 else self._steps(most)
        return list(zip(values, labels(values, powers=values is powers), strict=True))

    def spaced_ticks(self) -> list[tuple[float, str]]:
        """As many ticks on a horizontal axis as have room for their labels."""
        room = abs(self.end - self.start)
        for most in range(8, 1, -1):
            ticks = self.ticks(most)
            if sum(text_width(label) + 18 for _, label in ticks) <= room + 18:
                return ticks
        return self.ticks(2)

    def _steps(self, most: int) -> list[float]:
        step = _step(self.low, self.high, most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]

    def _powers(self, most: int) -> list[float]:
        low, high = math.log10(self.low), math.log10(self.high)
        factors = (1,) if high - low > 2.5 else (1, 3) if high - low > 1.2 else (1, 2, 5)
        powers = range(math.floor(low), math.ceil(high) + 1)
        found = [f * 10.0**power for power in powers for f in factors if self.low <= f * 10.0**power <= self.high]
        return found[:: math.ceil(len(found) / most)]


def shows(value: float, log: bool) -> bool:
    """Whether an axis has a place for the value."""
    return math.isfinite(value) and (value > 0 or not log)


def labels(values: Sequence[float], *, powers: bool) -> list[str]:
    """Numbers written alike."""
    if powers:
        return [_power(value) for value in values]
    steps = [abs(b - a) for a, b in pairwise(values)] or [abs(values[0]) if values else 1]
    decimals = max(0, -math.floor(math.log10(min(steps) or 1) + 1e-9))
    largest = max((abs(value) for value in values), default=0)
    if decimals > 5 or largest >= 1e7:
        return [f"{value:.2g}".replace("-", "−") for value in values]
    return [f"{value + 0:,.{decimals}f}".replace("-", "−") for value in values]


def _power(value: float) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    if -4 <= exponent <= 4:
        return f"{value:,.{max(0, -exponent)}f}"
    factor = value / 10.0**exponent
    return ("" if abs(factor - 1) < 1e-6 else f"{factor:g}·") + "10" + str(exponent).translate(SUPERSCRIPTS)


def _step(low: float, high: float, most: int) -> float:
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
