"""Gaps as bars of text: what each client gains or loses, method beside method."""

from collections.abc import Sequence

from lossgap.result import Result

HALF = 24
EIGHTHS = " ▏▎▍▌▋▊▉█"


def gap_picture(results: Sequence[Result]) -> str:
    """One bar per client and method: to the left of the line it gains by joining, to the right it loses."""
    largest = max(abs(client.gap) for result in results for client in result.clients) or 1.0
    labels = [str(result.algorithm) for result in results]
    width = max(map(len, labels)) + 2
    lines = [f"{'':{width}}{'gains by joining':>{HALF}} │ {'loses':{HALF}}    gap"]
    for clients in zip(*(result.clients for result in results), strict=True):
        lines.append(f"{clients[0].name}, {clients[0].rows} rows, alone {clients[0].solo_loss:.3f}")
        for label, client in zip(labels, clients, strict=True):
            lines.append(f"  {label:{width - 2}}{_bar(client.gap / largest)} {client.gap:+.3f}")
    return "\n".join(lines)


def _bar(share: float) -> str:
    """A bar of `HALF` characters for ±1, on its side of the line."""
    if share < 0:
        return f"{'█' * round(-share * HALF):>{HALF}} │ {'':{HALF}}"
    whole, rest = divmod(round(share * HALF * 8), 8)
    return f"{'':{HALF}} │ {'█' * whole + EIGHTHS[rest].strip():{HALF}}"
