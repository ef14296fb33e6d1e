"""Kernels' texts and binaries go to folders of the test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADSCRIPT_CACHE", str(folder / "modules"))
        patch.setenv("TRITON_CACHE_DIR", str(folder / "binaries"))
        patch.delenv("TRITON_INTERPRET", raising=False)
        yield
