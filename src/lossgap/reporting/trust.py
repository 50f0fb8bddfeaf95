"""How sure the order of the methods is, in words."""

from lossgap.reporting.doubt import ranking, swaps
from lossgap.reporting.html import bullets, paragraph
from lossgap.reporting.page import Section
from lossgap.reporting.plain import Evidence
from lossgap.reporting.words import counted
from lossgap.table import listed

NAMED = 4


def trust_section(evidence: Evidence, error: float) -> Section | None:
    """What an error in the losses alone would change; None for a single method."""
    if len(evidence.methods) == 1:
        return None
    inside = [paragraph(EXPLAINED), bullets(order_sentences(evidence, error), "takeaways")]
    return Section("trust", "If the losses alone were off", "".join(inside))


EXPLAINED = (
    "Gaps are only as good as the losses that clients are said to reach alone. All methods are held against the same "
    "ones, so an error in them moves all gaps of a client together, and the difference of two methods' variances "
    "follows from the errors by a formula: what is said here holds for every error up to the given size, and was not "
    "sampled."
)


def order_sentences(evidence: Evidence, error: float) -> list[str]:
    """Whether the ranking by variance of gaps stays or may flip, and where it is closest."""
    gaps = {method.name: method.gaps for method in evidence.methods}
    every = swaps(gaps)
    names = ranking(gaps)
    open_ = [swap for swap in every if swap.error <= error]
    first = min(swap.error for swap in every if swap.even == names[0])
    found = [
        f"With ±{error:g} on the solo losses the ranking of methods by the variance of their gaps "
        + (f"flips for some errors: the order of {_pairs(open_, len(every))} is open." if open_ else "stays.")
    ]
    if first == float("inf"):
        return found
    found.append(
        f"{names[0]} stays the most even for every error below {_rounded_down(first)}."
        if first > 0
        else f"{names[0]} and another method are equally even."
    )
    closest = every[0]
    if closest.even != names[0] or closest.error < first:
        found.append(
            f"The closest pair is {closest.even} before {closest.uneven}: errors of {closest.error:.2g} can swap them."
        )
    return found


def _pairs(open_: list, every: int) -> str:  # type: ignore[type-arg]
    named = [f"{swap.even} before {swap.uneven} (from {swap.error:.2g} on)" for swap in open_[:NAMED]]
    if len(open_) <= NAMED:
        return listed(named)
    return f"{counted(len(open_), 'pair')} of {every}, such as {listed(named)},"


def _rounded_down(value: float) -> str:
    """Two digits, never more than the value."""
    from math import floor, log10

    unit = 10.0 ** (floor(log10(value)) - 1)
    return f"{floor(value / unit + 1e-9) * unit:.2g}"
