"""Kernel IR as C: functions that go through programs, one after the other, on any compiler of C11."""
