"""In the place of a package that torch's testing tools import, and of which what is tested here uses nothing."""

from __future__ import annotations

import unittest


class TestCase(unittest.TestCase):
    """What torch's own cases derive from."""
