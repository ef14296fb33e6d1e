"""`gs.convert`: the Functions and scripted functions of a file of Python, as source in the language."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

from ...lang.diagnostics import CompileError
from ...lang.light_dataclasses import dataclass, field
from ...lang.source import Source
from ...runtime.face.units.unit import CompilationUnit
from ..format.formatter import format_source
from .canonical import Canonical
from .function_class import Converted, convert_class, helpers_of, mark_as_written
from .guessing import candidate_types
from .reading import Method, PythonFile, Unconvertible, read_python
from .writing import Comments, Writer

_SUFFIX = re.compile(r"(Autograd)?(Function|Func|Fn|Op)$")
_RESERVED = frozenset((*dir(builtins), "torch", "math", "gs", "F"))
"""Names that a function would take from the others of its file."""
_MISFIT = re.compile(
    r"function '(?P<function>\w+)': '(?P<parameter>\w+)' must be [\w\[\]]+, "
    r"not (?P<type>float|int|bool|str|List\[\w+\])$"
)
_ONE_WORD = re.compile(r"[A-Z][a-z]*G?LU")
"""SwiGLU, GeLU."""
_IDLE_DECORATORS = (
    "custom_fwd",
    "custom_bwd",
    "script",
    "script_if_tracing",
    "staticmethod",
    "classmethod",
    "once_differentiable",
    "compile",
    "no_grad",
    "export",
)


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to say of a name in the file, and in which line."""

    name: str
    line: int
    message: str

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "line": self.line, "message": self.message}


@dataclass(slots=True)
class Conversion:
    """What became of a file: the text, which functions stand for what, what was guessed or left out, what failed."""

    filename: str
    text: str = ""
    names: dict[str, str] = field(default_factory=dict)
    """By the name in Python, those in the text."""
    notes: list[Remark] = field(default_factory=list)
    failures: list[Remark] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all that could be asked for is there."""
        return not self.failures

    def told(self, remark: Remark) -> str:
        return f"{self.filename}:{remark.line}: {remark.name}: {remark.message}"

    def to_dict(self) -> dict[str, Any]:
        remarks = {"notes": self.notes, "failures": self.failures}
        told = {kind: [remark.to_dict() for remark in found] for kind, found in remarks.items()}
        return {"file": self.filename, "text": self.text, "names": self.names, **told}


def convert(text: str, filename: str = "<string>") -> Conversion:
    """What a Python source text holds of `torch.autograd.Function`s and scripted functions, in the language.

        print(gs.convert(open("swish.py").read()).text)

    The text is read and never run. ValueError, with the line, for what is no Python.
    """
    if not isinstance(text, str):
        raise TypeError(f"gs.convert takes the text of a file, not {type(text).__name__}")
    try:
        return _Conversions(text, read_python(text), filename).made()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ValueError(f"{filename}:{line}: this is no text: half of a character stands in it") from None
    except SyntaxError as error:
        raise ValueError(f"{filename}:{error.lineno or 1}: this is no Python: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{filename}: its expressions are nested too deeply to be read") from None


@dataclass(slots=True)
class _Piece:
    """One function on its way into the text."""

    name: str
    made: Converted
    needs: list[str]
    """What it calls, by the names in the text."""
    constants: list[str]
    text: str = ""


class _Conversions:
    """The functions of one file, each after those that it calls."""

    def __init__(self, text: str, file: PythonFile, filename: str) -> None:
        self._text = text
        self._file = file
        self._comments = Comments.of(text)
        self._found = Conversion(filename)
        self._names = {name: self._name_of(name) for name in file.classes}
        self._failed = {name: Remark(name, line, reason) for name, line, reason in file.left}
        self._pieces: dict[str, _Piece] = {}
        self._constants: dict[str, str] = {}
        self._owners: dict[str, ast.ClassDef] = {}
        """By the names of methods that are functions here, the class that each stands in."""

    def made(self) -> Conversion:
        self._read_all()
        self._settle_all()
        done = {name: piece for name, piece in self._pieces.items() if piece.text}
        in_order = sorted(done.values(), key=lambda piece: piece.made.definition.lineno)
        used = dict.fromkeys(chain.from_iterable(piece.constants for piece in in_order))
        text = _joined([self._constants[name] for name in self._constants if name in used], in_order)
        if in_order:
            self._found.text = format_source(Source(text, self._found.filename))
        wanted = {**self._names, **{name: name for name in self._file.functions}}
        self._found.names = {name: made for name, made in wanted.items() if made in done}
        self._found.failures = sorted(self._failed.values(), key=lambda remark: remark.line)
        return self._found

    def _name_of(self, name: str) -> str:
        """What a class is called as a function: as the name of its `apply`, or after itself."""
        applied = [alias for alias, whose in self._file.applied.items() if whose == name]
        short = _SUFFIX.sub("", name) or name
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", short)
        made = applied[0] if applied else (short if _ONE_WORD.fullmatch(short) else words).lower().strip("_")
        return f"{made}_function" if made in _RESERVED or made in self._file.functions else made

    # --- reading ---

    def _read_all(self) -> None:
        wanted = [*self._file.classes, *dict.fromkeys(self._file.scripted)]
        while wanted:
            name = wanted.pop(0)
            known = self._names.get(name, name)
            if known in self._pieces or known in self._failed:
                continue
            try:
                piece = self._read(name, known)
            except Unconvertible as reason:
                self._fail(known, name, reason.line or self._line_of(name), reason.message)
                continue
            self._pieces[known] = piece
            by_name = {made: original for original, made in self._names.items()}
            wanted += [by_name.get(needed, needed) for needed in piece.needs]

    def _line_of(self, name: str) -> int:
        node = self._file.classes.get(name) or self._file.functions.get(name)
        return node.lineno if node is not None else 0

    def _fail(self, known: str, name: str, line: int, message: str) -> None:
        self._failed[known] = Remark(name, line, message)

    def _read(self, name: str, known: str) -> _Piece:
        node = self._file.classes.get(name)
        if node is not None:
            made = convert_class(node, known)
            made.definition.lineno = _first_line(node)
            self._found.notes += [Remark(name, line, said) for line, said in made.notes]
            helpers = {method.name: method for method in helpers_of(node)}
        else:
            definition = copy.deepcopy(self._file.functions[name])
            mark_as_written(definition.body)
            made, helpers = Converted(definition), {}
            node = self._owners.get(name)
        self._refuse_decorators(made.definition, name)
        renamer = Canonical(self._file, self._names, made.definition, node.name if node is not None else "", known)
        made.definition = renamer.visit(made.definition)
        made.definition.decorator_list = []
        self._read_helpers(renamer, helpers, known, node)
        constants = [constant for constant in renamer.constants if self._enter_constant(constant, node)]
        return _Piece(known, made, list(renamer.called), constants)

    def _read_helpers(
        self, renamer: Canonical, helpers: dict[str, Method], known: str, node: ast.ClassDef | None
    ) -> None:
        """Enter the methods beside a Function's own that it uses as functions of the file."""
        for method in [helpers[name] for name in renamer.helpers if name in helpers]:
            plain = copy.deepcopy(method)
            plain.name = f"{known}_{method.name}"
            plain.decorator_list = []
            self._file.functions.setdefault(plain.name, plain)
            if node is not None:
                self._owners[plain.name] = node

    def _refuse_decorators(self, definition: Method, name: str) -> None:
        for decorator in definition.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            said = self._file.dotted(called)
            if said.rpartition(".")[2] not in _IDLE_DECORATORS:
                message = f"the decorator `@{ast.unparse(decorator)}` is left out"
                self._found.notes.append(Remark(name, decorator.lineno, message))

    def _enter_constant(self, name: str, node: ast.ClassDef | None) -> bool:
        if name in self._constants:
            return True
        inside = [n for n in node.body if isinstance(n, ast.Assign)] if node is not None else []
        of_class = {t.id: n for n in inside for t in n.targets if isinstance(t, ast.Name)}
        statement = self._file.constants.get(name) or of_class.get(name)
        if statement is None:
            return False
        value = Canonical(self._file, self._names, None).visit(copy.deepcopy(statement.value))
        is_same = ast.dump(value) == ast.dump(statement.value)
        written = ast.get_source_segment(self._text, statement.value) if is_same else ast.unparse(value)
        for inner in ast.walk(statement.value):
            if isinstance(inner, ast.Name) and inner.id in self._file.constants and inner.id != name:
                self._enter_constant(inner.id, node)
        self._constants[name] = f"{name} = {written}"
        return True

    # --- compiling ---

    def _settle_all(self) -> None:
        """Give each function a text that compiles, after those that it calls."""
        waiting = dict(self._pieces)
        while waiting:
            ready = [name for name, piece in waiting.items() if not any(needed in waiting for needed in piece.needs)]
            if not ready:
                for name, piece in waiting.items():
                    line = piece.made.definition.lineno
                    self._fail(name, self._original(name), line, "it calls itself, directly or not: write a loop")
                return
            for name in ready:
                self._settle(waiting.pop(name))

    def _settle(self, piece: _Piece) -> None:
        definition = piece.made.definition
        broken = next((needed for needed in piece.needs if needed in self._failed), None)
        if broken is not None:
            self._fail(piece.name, piece.name, definition.lineno, f"it calls '{broken}', which is not converted")
            return
        before = self._before(piece)
        settled = self._compiling(piece, before)
        if isinstance(settled, dict):
            self._note_types(piece, settled)
        elif settled is not None:
            self._tell(piece, *settled, len(before.splitlines()))

    def _takes_what_is_given(self, piece: _Piece, error: CompileError) -> bool:
        """Whether a plain function that it calls can take what it is given, for a parameter whose type nothing says."""
        found = _MISFIT.search(error.diagnostics[0].message)
        called = self._pieces.get(found["function"]) if found is not None else None
        if found is None or called is None or called.name not in piece.needs or called.name in self._file.scripted:
            return False
        definition = called.made.definition
        given = {a.arg: a for a in (*definition.args.args, *definition.args.kwonlyargs)}.get(found["parameter"])
        if given is None or given.annotation is not None or called.made.saved:
            return False
        given.annotation = ast.parse(found["type"], mode="eval").body
        settled = self._compiling(called, self._before(called))
        if settled is None or isinstance(settled, tuple):
            given.annotation = None
            return False
        said = self._original(called.name)
        self._found.notes = [note for note in self._found.notes if note.name != said or note.line != definition.lineno]
        self._note_types(called, {given.arg: found["type"], **settled})
        return True

    def _compiling(self, piece: _Piece, before: str) -> dict[str, str] | tuple[CompileError, Writer] | None:
        """The first types with which a piece compiles, of which its text is made; else how the likeliest fail."""
        first: tuple[CompileError, Writer] | None = None
        is_plain = piece.name in self._file.functions and piece.name not in self._file.scripted
        for types in candidate_types(piece.made, plain=is_plain):
            writer = Writer(self._text, self._comments.again())
            text = writer.write_function(_with_types(piece.made.definition, types))
            try:
                CompilationUnit(f"{before}{text}")
            except CompileError as error:
                if self._takes_what_is_given(piece, error):
                    return self._compiling(piece, self._before(piece))
                first = first or (error, writer)
                continue
            piece.text = text
            return types
        return first

    def _before(self, piece: _Piece) -> str:
        """The text that a function needs: constants, and all that it calls."""
        needed: dict[str, None] = {}
        pending = [*piece.needs]
        while pending:
            name = pending.pop()
            if name not in needed:
                needed[name] = None
                pending += self._pieces[name].needs
        pieces = [self._pieces[name] for name in needed]
        constants = {*piece.constants, *chain.from_iterable(p.constants for p in pieces)}
        lines = [text for name, text in self._constants.items() if name in constants or self._is_named(name, constants)]
        return "".join(f"{text}\n" for text in [*lines, *(p.text for p in pieces)])

    def _is_named(self, name: str, constants: Iterable[str]) -> bool:
        return any(re.search(rf"\b{name}\b", self._constants[other].partition("=")[2]) for other in constants)

    def _note_types(self, piece: _Piece, types: dict[str, str]) -> None:
        guessed = [f"'{name}' for {_article(type)}" for name, type in types.items() if "Tensor" not in type]
        if guessed:
            message = f"nothing says the types of all parameters; this takes {', '.join(guessed)}"
            self._found.notes.append(Remark(self._original(piece.name), piece.made.definition.lineno, message))

    def _original(self, known: str) -> str:
        return next((name for name, made in self._names.items() if made == known), known)

    def _tell(self, piece: _Piece, error: CompileError, writer: Writer, before: int) -> None:
        diagnostic = error.diagnostics[0]
        place = diagnostic.span.line - before - 1
        line = writer.lines[place][1] if 0 <= place < len(writer.lines) else 0
        written = writer.lines[place][0].strip() if 0 <= place < len(writer.lines) else ""
        notes = "".join(f"\n  note: {note}" for note in diagnostic.notes[:2])
        message = f"{diagnostic.code} {diagnostic.message}\n   | {written}{notes}"
        self._fail(piece.name, self._original(piece.name), line or piece.made.definition.lineno, message)


def _with_types(definition: Method, types: dict[str, str]) -> Method:
    typed = copy.deepcopy(definition)
    for argument in (*typed.args.args, *typed.args.kwonlyargs):
        if argument.arg in types:
            argument.annotation = ast.parse(types[argument.arg], mode="eval").body
    return typed


def _first_line(node: ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _article(type: str) -> str:
    return f"an {type}" if type[0] in "aeiouI" else f"a {type}"


def _joined(constants: list[str], pieces: list[_Piece]) -> str:
    parts = ["\n".join(constants)] if constants else []
    return "\n\n\n".join([*parts, *(piece.text.rstrip("\n") for piece in pieces)]) + "\n"
