"""Runs on disk: every run under the hash of what it is, trained once and found again by whoever asks for it."""

from lossgap.store.results import check_room, load, save
from lossgap.store.store import Store

__all__ = ["Store", "check_room", "load", "save"]
