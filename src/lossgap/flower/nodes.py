"""Who is who: a site is known by what its node was registered with, not by what it says of itself."""

import hashlib
from collections.abc import Callable, Mapping

from flwr.serverapp import Grid

from lossgap.errors import repeated, require

Identify = Callable[[Grid], Mapping[int, str]]
"""The sites that are connected: names by node."""

DIGITS = 12


def registered(grid: Grid) -> dict[int, str]:
    """By the name that the node was registered with (`flwr supernode register KEY --name lyon`), else by its key.

    Both outlast a reconnection, and a new node for the same site: its rows of the records stay its own.
    """
    names = {
        int(node.node_id): node.name or _of_key(node.public_key) or f"node {node.node_id}" for node in grid.get_nodes()
    }
    twice = repeated(list(names.values()))
    require(
        not twice,
        f"Two nodes are registered as {twice and twice[0]!r}: {[n for n, name in names.items() if name in twice]}.",
        "Unregister one of them (flwr supernode unregister), or give it a name of its own.",
    )
    return names


def _of_key(public_key: bytes) -> str:
    return f"key {hashlib.sha256(public_key).hexdigest()[:DIGITS]}" if public_key else ""
