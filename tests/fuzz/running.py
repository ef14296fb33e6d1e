"""Running programs on roads: what fails, told and made small."""

from __future__ import annotations

import signal
import traceback
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import gradscript as gs
from eager import is_tame
from fuzzed_program import FuzzedProgram
from pair_check import pairs_hold
from roads import ROADS
from shrinker import shrink
from subject import Mismatch, Subject

REFUSALS = (gs.CompileError, gs.RuntimeFailure)
COMPILING, CALLING = "compiling", "first call"
LONGEST = 20
"""Seconds that one road may take; more is a hang."""


@dataclass(frozen=True)
class Failure:
    source: str
    road: str
    kind: str
    """mismatch, refusal, hang, or the type of what was raised."""
    message: str

    def __str__(self) -> str:
        return f"{self.source}\n--- {self.road}: {self.kind}\n{self.message}"


class Hang(Exception):
    """A road took longer than any should."""


def failures(subject: Subject, roads: Sequence[str]) -> Iterator[Failure]:
    """What goes wrong with a program on the roads, all of it. One that does not compile takes none."""
    refused = _compiled(subject)
    if refused is not None:
        yield refused
        return
    for road in roads:
        failure = run(subject, road)
        if failure is not None:
            yield failure


def _compiled(subject: Subject) -> Failure | None:
    try:
        with limited():
            _ = subject.unit
    except gs.CompileError as error:
        if any(subject.expected(i, 0).failure is None for i in range(len(subject.calls))):
            return Failure(subject.program.source, COMPILING, "refusal", str(error))
    except Exception as error:
        return Failure(subject.program.source, COMPILING, type(error).__name__, _told(error))
    return None


def run(subject: Subject, road: str) -> Failure | None:
    """A road taken. Where torch refuses the call so must the function, with a message of ours."""
    source = subject.program.source
    if any(subject.expected(i, 0).failure is not None for i in range(len(subject.calls))):
        return _refused(subject)
    try:
        with limited():
            ROADS[road](subject)
    except REFUSALS as error:
        return Failure(source, road, "refusal", str(error))
    except Mismatch as error:
        return Failure(source, road, "mismatch", str(error))
    except Hang:
        return Failure(source, road, "hang", traceback.format_exc())
    except Exception as error:
        return Failure(source, road, type(error).__name__, _told(error))
    return None


def _refused(subject: Subject) -> Failure | None:
    """Calls that torch refuses end in RuntimeFailure or in a value, the others give what torch gives.

    In a value where nobody reads what fails: that is left out when a program compiles.
    """
    source = subject.program.source
    for i, call in enumerate(subject.calls):
        expected = subject.expected(i, 0)
        _, args, kwargs = call.wrap(lambda array: array)
        try:
            with limited():
                found = subject.f(*args, **kwargs)
                if expected.failure is None:
                    subject.check_value(found, expected)
        except REFUSALS as error:
            if expected.failure is None:
                return Failure(source, CALLING, "refusal", str(error))
        except Mismatch as error:
            return Failure(source, CALLING, "mismatch", str(error))
        except Exception as error:
            return Failure(source, CALLING, type(error).__name__, _told(error))
    return None


def _told(error: Exception) -> str:
    return f"{error}\n{traceback.format_exc()}"


def is_sound(source: str) -> bool:
    """Whether torch's answers say something: numbers of moderate size, pairs that are right."""
    subject = Subject(FuzzedProgram(source))
    outcomes = [subject.expected(i) for i in range(len(subject.calls))]
    taken = [call for call, outcome in zip(subject.calls, outcomes, strict=True) if outcome.failure is None]
    return all(map(is_tame, outcomes)) and pairs_hold(source, taken)


def shrunk(failure: Failure, most: int = 2000) -> Failure:
    """The smallest program found that fails alike on the same road."""
    found = [failure]

    def fails(source: str) -> bool:
        try:
            if not is_sound(source):
                return False
            again = next(failures(Subject(FuzzedProgram(source)), [failure.road]), None)
        except Exception:
            return False
        if again is None or not _alike(again, failure):
            return False
        found.append(again)
        return True

    shrink(failure.source, fails, most)
    return found[-1]


def _alike(one: Failure, other: Failure) -> bool:
    """Of one kind; of refusals and crashes, with the same first words."""
    if one.kind != other.kind:
        return False
    return one.kind == "mismatch" or gist(one.message) == gist(other.message)


def gist(message: str) -> str:
    """How a message begins, without numbers."""
    return "".join(c for c in message.lstrip().split("\n")[0] if not c.isdigit())[:40]


@contextmanager
def limited(seconds: int = LONGEST) -> Iterator[None]:
    """Hang after so many seconds of work."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        raise Hang(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
