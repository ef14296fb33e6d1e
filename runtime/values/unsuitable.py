"""Unsuitable: what a user passed that cannot stand for an argument."""

from __future__ import annotations


class Unsuitable(Exception):
    """A value cannot stand for an argument: why, and what to do. `kind` says that it is an array of a wrong kind."""

    def __init__(self, message: str, note: str = "", *, kind: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.note = note
        self.kind = kind
