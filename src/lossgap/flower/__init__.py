"""lossgap across machines: any method as a Flower strategy, any learner as a Flower client app.

The server walks the same round as the simulator does; only the way to the sites differs. Needs the extra
`pip install 'lossgap[flower]'`.
"""

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

from lossgap.errors import SettingError

if TYPE_CHECKING:
    from lossgap.flower.courier import Patience, SitesMissing
    from lossgap.flower.honesty import Limits
    from lossgap.flower.nodes import registered
    from lossgap.flower.private import train_privately
    from lossgap.flower.simulation import simulate
    from lossgap.flower.site import client_app
    from lossgap.flower.strategy import FairStrategy

_HOME = {
    "FairStrategy": "lossgap.flower.strategy",
    "Limits": "lossgap.flower.honesty",
    "Patience": "lossgap.flower.courier",
    "SitesMissing": "lossgap.flower.courier",
    "client_app": "lossgap.flower.site",
    "registered": "lossgap.flower.nodes",
    "simulate": "lossgap.flower.simulation",
    "train_privately": "lossgap.flower.private",
}

__all__ = [
    "FairStrategy",
    "Limits",
    "Patience",
    "SitesMissing",
    "client_app",
    "registered",
    "simulate",
    "train_privately",
]


QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
"""Nobody is told about a run, unless the environment says otherwise."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lossgap.flower' has no attribute {name!r}")
    if importlib.util.find_spec("flwr") is None:
        raise SettingError("lossgap.flower needs Flower. Install it with: pip install 'lossgap[flower]'")
    for silence, value in QUIET.items():
        os.environ.setdefault(silence, value)
    return getattr(importlib.import_module(_HOME[name]), name)
