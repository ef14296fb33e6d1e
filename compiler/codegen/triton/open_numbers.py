"""Numbers of a text that follow from open sizes: passed at each launch, behind the sizes that are passed anyway.

x_ptr + (size_i - 1 - i) * 64      where size_i is passed, and n * 64 for an open n is 64 times its parameter
"""

from __future__ import annotations

from ...kernel_ir.kernel import Kernel
from ...kernel_ir.passed_sizes import passed_sizes, size_parameter
from ...types.dtypes import Number
from ...types.open_sizes import is_open
from ..naming import Names


class OpenNumbers:
    """The parameters of one text. `passed` are the numbers that have one of their own, in order."""

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._names = names
        self._parameters = {repr(size): size_parameter(axis) for axis, size in passed_sizes(kernel).items()}
        self.passed: list[Number] = []
        self.parameters: list[str] = []

    def text(self, number: Number) -> str:
        """A number that is not negative."""
        if not is_open(number):
            return str(number)
        key = repr(number)
        if key not in self._parameters:
            self._parameters[key] = name = self._names.take("number")
            self.parameters.append(name)
            self.passed.append(number)
        return self._parameters[key]
