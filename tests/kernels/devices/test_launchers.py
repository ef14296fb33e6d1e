"""Triton's launchers, passed by where what they do is the same each time."""

from __future__ import annotations

from typing import Any

import pytest
from gradscript.runtime.kernels.triton.kernel import _unwrapped

BEHIND = ("function", "packed", None, None, None)


class Launcher:
    """As Triton 3.6 has it."""

    def __init__(self, scratch: int = 0) -> None:
        self.launched: list[Any] = []
        self.launch: Any = lambda *given: self.launched.append(given)
        self.global_scratch_size, self.profile_scratch_size = scratch, 0
        self.launch_cooperative_grid, self.launch_pdl = False, True

    def __call__(self, x: int, y: int, z: int, stream: int, function: Any, *args: Any) -> None:
        scratch = object() if self.global_scratch_size else None
        self.launch(*(x, y, z, stream, function, self.launch_cooperative_grid, self.launch_pdl, scratch, None), *args)


class Nested(Launcher):
    """As Triton 3.9 has it: what is passed goes as one tuple."""

    def __call__(self, x: int, y: int, z: int, stream: int, function: Any, *args: Any) -> None:
        self.launch(x, y, z, stream, function, *args[:4], args[4:])


class Turned(Launcher):
    def __call__(self, x: int, y: int, z: int, stream: int, function: Any, *args: Any) -> None:
        self.launch(x, y, z, stream, function, *reversed(args))


class Counting(Launcher):
    def __call__(self, x: int, y: int, z: int, stream: int, function: Any, *args: Any) -> None:
        self.launch(x, y, z, stream, [function], *args)


class Twice(Launcher):
    def __call__(self, *given: Any) -> None:
        super().__call__(*given)
        super().__call__(*given)


def test_the_same_is_called_with_the_same() -> None:
    launcher = Launcher()
    found = _unwrapped(launcher, (1, 2, 3), BEHIND)
    assert found is not None and not launcher.launched
    called, behind = found
    launcher(1, 2, 3, 77, *BEHIND, 4096, 8192, 64, 0.5)
    called(1, 2, 3, 77, *behind, 4096, 8192, 64, 0.5)
    assert launcher.launched[0] == launcher.launched[1] and len(launcher.launched) == 2
    assert behind == ("function", False, True, None, None, "packed", None, None, None)


@pytest.mark.parametrize(
    "launcher", [Launcher(scratch=16), Nested(), Turned(), Counting(), Twice(), object(), lambda *given: None]
)
def test_others_are_called_themselves(launcher: Any) -> None:
    assert _unwrapped(launcher, (1, 2, 3), BEHIND) is None
    assert not getattr(launcher, "launched", None)
