"""Folders and files that are ours alone: opened without following links, checked while they are open, read once.

What is kept on disk is run later, so nobody else may have put it there. A folder is opened by its name in the folder
above, which is open already; it has to be ours, and no one else may write to it. So has a file, and to be a regular
one. All of this is asked of what was opened and not of a name, and what is read is read once, so it makes no difference
what is renamed, replaced or written afterwards. Who has something loaded by path, as `dlopen` does, makes a file in
memory of the bytes that were checked.

Where folders cannot be opened (outside of POSIX) nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from types import TracebackType

_CLOEXEC, _NOFOLLOW = getattr(os, "O_CLOEXEC", 0), getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | _CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC
# Opening a FIFO would wait for its other end.
_FILE = os.O_RDONLY | _NOFOLLOW | _CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UnsafeFolder(PermissionError):
    """A folder in which somebody else may have put what we would run; the message says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} {reason}")


class PrivateFolder:
    """An open folder that only we can write to. A context manager, which closes it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: Path) -> PrivateFolder:
        """The folder at a path, shut to others if it was open to them: what they have put there is not used either.

        Raises: UnsafeFolder where it is a link or belongs to somebody else; OSError where it cannot be opened.
        """
        folder = _open_folder(path, str(path), None)
        try:
            found = os.fstat(folder.descriptor)
            _require_owner(path, found)
            if stat.S_IMODE(found.st_mode) & _OF_OTHERS:
                os.fchmod(folder.descriptor, stat.S_IRWXU)
        except BaseException:
            folder.close()
            raise
        return folder

    def folder(self, name: str) -> PrivateFolder:
        """A folder in this one, made where there is none.

        Raises: UnsafeFolder where something else has the name, or others could have put it there or can write to it.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, stat.S_IRWXU, dir_fd=self.descriptor)
        folder = _open_folder(self.path / name, name, self.descriptor)
        try:
            found = os.fstat(folder.descriptor)
            _require_owner(folder.path, found)
            if stat.S_IMODE(found.st_mode) & _WRITTEN_BY_OTHERS:
                raise UnsafeFolder(folder.path, "can be written to by others")
        except BaseException:
            folder.close()
            raise
        return folder

    def read(self, name: str) -> bytes:
        """The content of a file.

        Raises: OSError where there is none, or a link, a device, a pipe, or one that others own or can write to.
        """
        descriptor = os.open(name, _FILE, dir_fd=self.descriptor)
        try:
            _require_private_file(self.path / name, os.fstat(descriptor))
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)

    def write(self, name: str, content: bytes, unfinished: PrivateFolder) -> None:
        """Put a file in the place of whatever has the name but a folder, without writing to that.

        It is written in the folder for what is `unfinished` and moved, so a reader sees all of it or nothing, and what
        a process leaves that dies meanwhile is not here.
        """
        temporary = f"new-{secrets.token_hex(8)}"
        descriptor = os.open(temporary, _NEW_FILE, stat.S_IRUSR | stat.S_IWUSR, dir_fd=unfinished.descriptor)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, name, src_dir_fd=unfinished.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=unfinished.descriptor)
            raise

    def close(self) -> None:
        os.close(self.descriptor)

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_folder(path: Path, name: str, above: int | None) -> PrivateFolder:
    try:
        return PrivateFolder(path, os.open(name, _FOLDER, dir_fd=above))
    except OSError as error:
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise UnsafeFolder(path, "is a link") from error
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafeFolder(path, "is no folder") from error
        raise


def _require_owner(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise UnsafeFolder(path, "belongs to another user")


def _require_private_file(path: Path, found: os.stat_result) -> None:
    is_ours = found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & _WRITTEN_BY_OTHERS
    if not is_ours or not stat.S_ISREG(found.st_mode):
        raise PermissionError(f"{path} is no file of ours alone")
