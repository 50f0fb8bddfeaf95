"""Which devices a run is spread over: all that JAX sees, one per core on a CPU, where the work is worth it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"

WORTH_IT = 10**7
"""Rows times parameters of a round. Below this, devices would wait for each other longer than they save."""

SINGLE_THREADED = {"xla_cpu_multi_thread_eigen": False}
"""Products on one core of a CPU whose other cores are devices of their own."""


def one_per_core() -> None:
    """Make every core of the CPU a device, unless JAX has begun or the user has said how many there are."""
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    if jax.config.values["jax_num_cpu_devices"] != -1:
        return
    with suppress(RuntimeError):  # JAX is at work already, with the devices that it has
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)  # type: ignore[no-untyped-call]


def mesh_for(work: int) -> Mesh | None:
    """The devices for so many rows times parameters; None is one device, which then uses all cores."""
    devices = jax.devices()
    return Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 and work >= WORTH_IT else None


def spread(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays [device, ...], each part on its device."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, PartitionSpec(AXIS)))


def everywhere(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays that every device needs."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def compiler_options(mesh: Mesh | None) -> dict[str, Any]:
    """What the compiler should know of the devices."""
    on_cpu = mesh is not None and mesh.devices.flat[0].platform == "cpu"
    return SINGLE_THREADED if on_cpu else {}


def dealt(amounts: Sequence[int], devices: int) -> list[list[int]]:
    """Clients dealt to devices, the largest first and always to the emptiest, so that all have about as much."""
    hands: list[list[int]] = [[] for _ in range(devices)]
    load = [0] * devices
    for k in sorted(range(len(amounts)), key=lambda k: -amounts[k]):
        device = load.index(min(load))
        hands[device].append(k)
        load[device] += amounts[k]
    return [sorted(hand) for hand in hands]
