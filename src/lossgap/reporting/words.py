"""Verdicts in plain words, and numbers written alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lossgap.metrics import INDIFFERENT, ClientRow
from lossgap.reporting.plain import Evidence, Method
from lossgap.table import listed

FEW = 6
"""Up to so many clients are all named in a sentence."""

TIE = 0.01
"""Variances within this share of each other are called equal."""


@dataclass(frozen=True)
class Numbers:
    """How losses are written: with as many decimals as their gaps need."""

    decimals: int = 3

    @classmethod
    def of(cls, evidence: Evidence) -> "Numbers":
        largest = max((abs(client.gap) for method in evidence.methods for client in method.clients), default=0)
        if largest == 0 or 0.05 <= largest < 50:
            return cls()
        return cls(min(8, max(0, 2 - math.floor(math.log10(largest)))))

    def loss(self, value: float) -> str:
        return _typeset(f"{value:,.{self.decimals}f}", value)

    def gap(self, value: float) -> str:
        """With its sign; none for what is rounded to zero."""
        text = f"{value:+,.{self.decimals}f}"
        return _typeset(text if any(c in "123456789" for c in text) else text[1:], value)


def variance(value: float) -> str:
    """Three digits, whatever the size."""
    if value != value:
        return "–"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}" if value else "0"
    return text.removesuffix(".").replace("-", "−")


def percent(value: float) -> str:
    return "–" if value != value else f"{100 * value:.1f} %"


def count(value: float) -> str:
    return f"{value:,.0f}"


def _typeset(text: str, value: float) -> str:
    return "–" if value != value else text.replace("-", "−")


def who(method: Method, numbers: Numbers) -> str:
    """Who gains, who loses and who does neither, in a sentence."""
    parts = [
        _some(method.standing("gains"), len(method.clients), "gain", numbers),
        _some(method.standing("loses"), len(method.clients), "lose", numbers),
        _same(method.standing("same"), len(method.clients)),
    ]
    sentence = "; ".join(part for part in parts if part)
    return f"{sentence}."


def _some(clients: Sequence[ClientRow], of: int, verb: str, numbers: Numbers) -> str:
    if not clients:
        return f"nobody {verb}s"
    if of <= FEW:
        named = listed([f"{client.name} (by {numbers.loss(abs(client.gap))})" for client in clients])
        return f"{named} {verb}{'s' * (len(clients) == 1)}"
    most = clients[0]
    everybody = f"all {of}" if len(clients) == of else f"{len(clients)} of {of}"
    return f"{everybody} {verb}{'s' * (len(clients) == 1)}, {most.name} the most (by {numbers.loss(abs(most.gap))})"


def _same(clients: Sequence[ClientRow], of: int) -> str:
    if not clients:
        return ""
    names = listed([client.name for client in clients]) if of <= FEW else f"{len(clients)} of {of}"
    return f"no difference for {names}"


def evenness(method: Method, numbers: Numbers) -> str:
    """How far apart the gaps are, in a sentence."""
    ordered = sorted(method.clients, key=lambda client: client.gap)
    best, worst = ordered[0], ordered[-1]
    sentence = (
        f"Gaps run from {numbers.gap(best.gap)} ({best.name}) to {numbers.gap(worst.gap)} ({worst.name}), "
        f"with a variance of {variance(method.mean('gap_variance'))}"
    )
    spread = method.deviation("gap_variance")
    return f"{sentence} ± {variance(spread)} over seeds." if spread == spread else f"{sentence}."


def takeaways(evidence: Evidence) -> list[str]:
    """What the methods come to beside each other."""
    numbers = Numbers.of(evidence)
    if len(evidence.methods) == 1:
        return []
    found = [_most_even(evidence), _protects(evidence, numbers), _losers(evidence), *_levelled(evidence)]
    return [sentence for sentence in found if sentence]


def _most_even(evidence: Evidence) -> str:
    ordered = sorted(evidence.methods, key=lambda method: method.mean("gap_variance"))
    first, last = ordered[0], ordered[-1]
    lowest, highest = first.mean("gap_variance"), last.mean("gap_variance")
    if highest <= lowest * (1 + TIE):
        return f"Gaps vary about equally under every method: variance {variance(lowest)}."
    equal = [method.name for method in ordered if method.mean("gap_variance") <= lowest * (1 + TIE)]
    sentence = (
        f"Gains are most even under {listed(equal)} (variance of the gaps {variance(lowest)}) and least even under "
        f"{last.name} ({variance(highest)})"
    )
    seeds = len(first.runs)
    if seeds == 1:
        return f"{sentence}."
    wins = sum(
        all(first.summaries[s].gap_variance <= other.summaries[s].gap_variance for other in ordered)
        for s in range(seeds)
    )
    return f"{sentence}; {first.name} has the smallest variance on {wins} of {seeds} seeds."


def _protects(evidence: Evidence, numbers: Numbers) -> str:
    def worst(method: Method) -> ClientRow:
        return max(method.clients, key=lambda client: client.gap)

    best = min(evidence.methods, key=lambda method: worst(method).gap)
    client = worst(best)
    return f"Whoever comes off worst does best under {best.name}: {client.name}, at {numbers.gap(client.gap)}."


def _losers(evidence: Evidence) -> str:
    losing = {method.name: {client.name for client in method.standing("loses")} for method in evidence.methods}
    nobody = [name for name, losers in losing.items() if not losers]
    if nobody:
        return (
            "Nobody loses under any method." if len(nobody) == len(losing) else f"Nobody loses under {listed(nobody)}."
        )
    always = [name for name in evidence.names if all(name in losers for losers in losing.values())]
    if not always:
        return "Every method leaves somebody worse off than alone, but nobody loses under all of them."
    named = listed(always) if len(always) <= FEW else f"{len(always)} of {len(evidence.names)} clients"
    verb = "loses" if len(always) == 1 else "lose"
    return f"Under every method {named} {verb}: by these numbers, no shared model here is worth joining for them."


def _levelled(evidence: Evidence) -> list[str]:
    """Even at the price of everybody: the most even method, if another one serves every single client better."""
    even = evidence.most_even
    better = [m for m in evidence.methods if (m.gaps.mean(axis=0) < even.gaps.mean(axis=0) - INDIFFERENT).all()]
    if not better:
        return []
    best = min(better, key=lambda method: method.mean("mean_gap"))
    return [f"But {even.name} levels down: under {best.name} every single client is better off."]


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
