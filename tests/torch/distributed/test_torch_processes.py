"""Two processes train a net of our functions and ops by torch's own means, and it comes out as in one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("distributed_worker.py")
WAYS = ("ddp", "ddp static", "fsdp2", "tp")


def test_nets_train_in_two_processes_as_in_one(tmp_path: Path) -> None:
    command = [sys.executable, str(WORKER)]
    processes = [
        subprocess.Popen(
            [*command, str(rank), "2", str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), "\n".join(told)
    for kind in ("functions", "ops"):
        for way in WAYS:
            assert f"{kind} {way}: equal" in told[0]
    assert "9 rows: equal" in told[1]
