"""Programs that are wrong in the way of each code, and right ones beside them. Tests hold both to it."""

from __future__ import annotations

from .example import Example
from .gradient_examples import GRADIENT_EXAMPLES
from .lint_examples import LINT_EXAMPLES
from .source_examples import SOURCE_EXAMPLES

EXAMPLES: dict[str, Example] = {**SOURCE_EXAMPLES, **GRADIENT_EXAMPLES, **LINT_EXAMPLES}
"""By code."""
