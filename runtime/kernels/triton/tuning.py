"""Choosing a kernel's schedule by timing a few, once for each kind of device; the choice is kept on disk."""

from __future__ import annotations

import json
from collections.abc import Callable

from ....compiler.kernel_ir.kernel import Kernel
from ....compiler.kernel_ir.printer import print_kernel
from ....compiler.scheduling.choose import candidates
from ....compiler.scheduling.schedule import Schedule
from ..cache.store import KernelStore

STORE = KernelStore("tuned")
FAILED = float("inf")
"""The time of a schedule that cannot run, as for want of shared memory."""


def tuned_schedule(kernel: Kernel, device: str, seconds: Callable[[Schedule], float]) -> Schedule:
    """The quickest of the schedules near the default one, by `seconds`, or what was found to be so before.

    `device` names the kind of device, and what else a time depends on. What is stored is checked against the
    schedules there are, so a choice of another version is made anew.
    """
    found = candidates(kernel)
    name = f"{device}\n{print_kernel(kernel)}"
    stored = STORE.get(name)
    if stored is not None:
        wanted = json.loads(stored).get("schedule")
        for schedule in found:
            if repr(schedule) == wanted:
                return schedule
    times = [seconds(schedule) for schedule in found]
    best = min(range(len(found)), key=times.__getitem__)
    if times[best] == FAILED:
        return found[0]
    record = {"schedule": repr(found[best]), "seconds": times[best], "default": times[0]}
    STORE.put(name, json.dumps(record).encode())
    return found[best]
