"""What the race ran on."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def describe() -> dict[str, str | int | float]:
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def cpu_model() -> str:
    """Linux says it in /proc; elsewhere what Python knows."""
    facts = Path("/proc/cpuinfo")
    if not facts.exists():
        return platform.processor() or "unknown"
    pairs = dict(line.split(":", 1) for line in facts.read_text().splitlines() if ":" in line)
    pairs = {key.strip(): value.strip() for key, value in pairs.items()}
    family, model = (pairs.get(key, "?") for key in ("cpu family", "model"))
    return f"{pairs.get('model name', 'unknown')} (family {family}, model {model})"
