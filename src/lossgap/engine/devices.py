"""Which devices a run is spread over: all that JAX sees, one per core on a CPU, where the work is worth it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
HERE = PartitionSpec(AXIS)  # type: ignore[no-untyped-call]
"""Of an array [device, ...], each device holds its own part."""

EVERYWHERE = PartitionSpec()  # type: ignore[no-untyped-call]
"""Every device holds the whole array."""

WORTH_IT = 10**7
"""Rows times parameters of a round. Below this, devices would wait for each other longer than they save."""

CORES_AS_DEVICES = {
    "xla_cpu_multi_thread_eigen": False,
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
    "xla_cpu_collective_call_terminate_timeout_seconds": 10**6,
    "xla_cpu_collective_call_warn_stuck_seconds": 10**6,
}
"""For a CPU whose cores are devices of their own: products on one core, one exchange between devices after another, and
patience with a device that was suspended."""


SMALL_ROUNDS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}
"""For rounds that are not worth several devices: small products are loops like all else, and part of what is around
them."""

SMALL_LOOP = 100_000
"""Bytes that a turn of a loop may touch for XLA to run it as one piece; else each of its operations is started anew. A
hundred rows of a few features are below that, and then a round takes two thirds of the time."""


def small_loops_as_one() -> None:
    """Tell XLA of `SMALL_LOOP`, which can only be done through the environment, before JAX begins."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()


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
    return Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 and not is_small(work) else None


def spread(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays [device, ...], each part on its device."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, HERE))


def everywhere(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays that every device needs."""
    return tree if mesh is None else jax.device_put(tree, NamedSharding(mesh, EVERYWHERE))


def is_small(work: int) -> bool:
    """Whether a round of so many rows times parameters is over before devices have found together."""
    return work < WORTH_IT


def compiler_options(mesh: Mesh | None, *, small: bool) -> dict[str, Any]:
    """What the compiler should know of the devices and of the size of a round."""
    if jax.devices()[0].platform != "cpu":
        return {}
    if mesh is not None:
        return CORES_AS_DEVICES
    return SMALL_ROUNDS if small else {}


def dealt(amounts: Sequence[int], devices: int) -> list[list[int]]:
    """Clients dealt to devices, the largest first and always to the emptiest, so that all have about as much."""
    hands: list[list[int]] = [[] for _ in range(devices)]
    load = [0] * devices
    for k in sorted(range(len(amounts)), key=lambda k: -amounts[k]):
        device = load.index(min(load))
        hands[device].append(k)
        load[device] += amounts[k]
    return [sorted(hand) for hand in hands]
