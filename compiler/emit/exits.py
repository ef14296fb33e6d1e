"""Early exits made structured: after this, control leaves a block only at its end.

SSA blocks have one way out. `return`, `break` and `continue` anywhere else are rewritten here, tree to tree:

    if c:                          if c:
        return a                       $return = a
    rest                   ─▶      else:
    return b                           rest
                                       $return = b

What follows a branch that leaves moves into the branch that stays. Where both may leave and both may stay, the
rest is guarded by a flag (`if not $done: rest`). A loop that is left early carries a flag which its condition
reads. Names that begin with `$` cannot be written in source; a path that does not set one leaves it
uninitialized, and no path reads it then.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ...lang import ast
from ...lang.diagnostics import Abort, Diagnostics
from ...lang.light_dataclasses import dataclass, replace
from ...lang.source import Span
from ...lang.trampoline import Walk, run

RESULT = "$return"


class Exit(Enum):
    """Whether a list of statements leaves before its end: on no path, on some, on all."""

    NEVER = 0
    MAYBE = 1
    ALWAYS = 2
    RAISES = 3
    """On all, by raising: what follows needs no guard, since no path comes to it."""


@dataclass(frozen=True, eq=False, slots=True)
class Branch(ast.Syntax):
    """An `if` with exactly two sides."""

    test: ast.Expr
    then: tuple[ast.Stmt, ...]
    otherwise: tuple[ast.Stmt, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loop(ast.Syntax):
    """A loop; it ends when `flag`, a bool variable, is set. `header` is the For or While that it stands for.

    `until` is the test of an `if …: break` that was the body's last statement and its only way out.
    """

    header: ast.For | ast.While
    body: tuple[ast.Stmt, ...]
    flag: str | None
    until: ast.Expr | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Left(ast.Syntax):
    """Control has left the block here: what follows in it is dead."""


@dataclass(frozen=True, eq=False, slots=True)
class Missing(ast.Syntax):
    """The end of a function that returns a value on other paths: an error, unless no path comes here."""


@dataclass(frozen=True, slots=True)
class Structured:
    """A body without early exits. `exit` tells whether every path sets RESULT, or comes to a Missing."""

    body: tuple[ast.Stmt, ...]
    exit: Exit


MAX_DEPTH = 200
"""Blocks inside blocks, `elif` and what follows an early exit counted. A graph's text is quadratic in this."""


def structure(body: tuple[ast.Stmt, ...], diagnostics: Diagnostics, may_end: bool = False) -> Structured:
    """Rewrite the body of one function. Nested functions are left as they are. Abort (E004) if it nests too deep.

    Where it `may_end` although other paths return, who comes to its end returns None.
    """
    structurer = _Structurer(diagnostics)
    kind = run(structurer.kind_of_list(body))
    if kind is Exit.MAYBE:
        span = body[-1].span
        # Whether some path falls off the end is known where tests of types have been decided.
        missing: ast.Stmt = Missing(span)  # type: ignore[assignment]
        body = (*body, ast.Return(span, None) if may_end else missing)
    return Structured(tuple(run(structurer.rewrite(body, _Flags()))), kind)


@dataclass(frozen=True, slots=True)
class _Flags:
    """Flags to set on the way out: of the guarded lists and of the loop around the statement."""

    done: tuple[str, ...] = ()
    loop: str | None = None
    returned: tuple[str, ...] = ()
    """Flags of every loop around: a return leaves them all."""
    depth: int = 0


class _Structurer:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.kinds: dict[int, Exit] = {}
        self.keep: list[object] = []
        self.flags = 0

    def flag(self, what: str) -> str:
        self.flags += 1
        return f"${what}.{self.flags}"

    # Classification

    def kind_of_list(self, body: Iterable[ast.Stmt]) -> Walk:
        found = Exit.NEVER
        for statement in flattened(body):
            kind = yield self.kind_of(statement)
            if kind in (Exit.ALWAYS, Exit.RAISES):
                return Exit.ALWAYS if found is Exit.MAYBE else kind
            if kind is Exit.MAYBE:
                found = Exit.MAYBE
        return found

    def kind_of(self, statement: ast.Stmt) -> Walk:
        known = self.kinds.get(id(statement))
        if known is None:
            known = yield self._classify(statement)
            self.kinds[id(statement)] = known
            self.keep.append(statement)
        return known

    def _classify(self, statement: ast.Stmt) -> Walk:
        match statement:
            case ast.Return() | ast.Break() | ast.Continue():
                return Exit.ALWAYS
            case ast.Raise():
                return Exit.RAISES
            case ast.If():
                if len(statement.clauses) > MAX_DEPTH:
                    raise too_deep(self.diagnostics, statement.span)
                kinds = []
                for body in (*(body for _, body in statement.clauses), statement.otherwise):
                    kinds.append((yield self.kind_of_list(body)))
                going_on = set(kinds) - {Exit.RAISES} or {Exit.RAISES}
                return going_on.pop() if len(going_on) == 1 else Exit.MAYBE
            case ast.For() | ast.While():
                returns = run(_leaves(statement.body, ast.Return))
                endless = isinstance(statement, ast.While) and _is_true(statement.test)
                if endless and not run(_leaves(statement.body, ast.Break)):
                    if not returns:
                        raise self.diagnostics.fail(
                            "E306",
                            "no `break` or `return` leaves this loop: nothing after it ever runs",
                            statement.span,
                            "leave it, or give it a condition: `while error > 1e-6:`",
                        )
                    return Exit.ALWAYS
                return Exit.MAYBE if returns else Exit.NEVER
            case _:
                return Exit.NEVER

    # Rewriting

    def rewrite(self, body: tuple[ast.Stmt, ...], context: _Flags) -> Walk:
        result: list[ast.Stmt] = []
        body = flattened(body)
        for i, statement in enumerate(body):
            is_last = i + 1 == len(body)
            kind = yield self.kind_of(statement)
            match statement:
                case ast.Return() | ast.Break() | ast.Continue():
                    return result + self._leave(statement, context)
                case ast.Raise():
                    return [*result, statement]
                case ast.If():
                    split = _as_branch(statement)
                    if kind is Exit.MAYBE and not is_last:
                        return result + (yield self._rewrite_exiting(split, body[i + 1 :], context))
                    result.append((yield self._rewrite_branch(split, (), (), context)))
                    if kind in (Exit.ALWAYS, Exit.RAISES):
                        return result
                case ast.For() | ast.While():
                    more, flag = yield self._rewrite_loop(statement, context)
                    result += more
                    if kind is Exit.ALWAYS:
                        return result
                    if kind is Exit.MAYBE and not is_last:
                        guarded = yield self.rewrite(body[i + 1 :], context)
                        return [*result, _unless(flag, guarded, statement.span)]
                case _:
                    result.append(statement)
        return result

    def _rewrite_branch(
        self,
        statement: Branch,
        more_then: tuple[ast.Stmt, ...],
        more_otherwise: tuple[ast.Stmt, ...],
        context: _Flags,
    ) -> Walk:
        then = yield self.rewrite(statement.then + more_then, context)
        otherwise = yield self.rewrite(statement.otherwise + more_otherwise, context)
        return Branch(statement.span, statement.test, tuple(then), tuple(otherwise))

    def _rewrite_exiting(self, statement: Branch, rest: tuple[ast.Stmt, ...], context: _Flags) -> Walk:
        """A branch that may leave, with statements after it."""
        if context.depth >= MAX_DEPTH:
            raise too_deep(self.diagnostics, statement.span)
        context = replace(context, depth=context.depth + 1)
        then_kind = yield self.kind_of_list(statement.then)
        otherwise_kind = yield self.kind_of_list(statement.otherwise)
        if then_kind in (Exit.ALWAYS, Exit.RAISES):
            return [(yield self._rewrite_branch(statement, (), rest, context))]
        if otherwise_kind in (Exit.ALWAYS, Exit.RAISES):
            return [(yield self._rewrite_branch(statement, rest, (), context))]
        flag = self.flag("done")
        inner = replace(context, done=(*context.done, flag))
        branch = yield self._rewrite_branch(statement, (), (), inner)
        guarded = yield self.rewrite(rest, context)
        return [_set(flag, False, statement.span), branch, _unless(flag, guarded, statement.span)]

    def _leave(self, statement: ast.Return | ast.Break | ast.Continue, context: _Flags) -> list[ast.Stmt]:
        span = statement.span
        flags = list(context.done)
        result: list[ast.Stmt] = []
        if isinstance(statement, ast.Return):
            value = statement.value or ast.Constant(span, None)
            result.append(ast.Assign(span, (ast.Name(span, RESULT),), value, None))
            flags += context.returned
        elif isinstance(statement, ast.Break) and context.loop:
            flags.append(context.loop)
        left: ast.Stmt = Left(span)  # type: ignore[assignment]
        return [*result, *(_set(flag, True, span) for flag in dict.fromkeys(flags)), left]

    def _rewrite_loop(self, statement: ast.For | ast.While, context: _Flags) -> Walk:
        """The loop with its flag set up before it, and the flag that tells that the function has returned."""
        until = _last_test(statement)
        if until is not None:
            body = yield self.rewrite(statement.body[:-1], _Flags())
            return [Loop(statement.span, statement, tuple(body), None, until)], None
        returns = run(_leaves(statement.body, ast.Return))
        breaks = run(_leaves(statement.body, ast.Break))
        stop = self.flag("stop") if returns or breaks else None
        # A loop that both breaks and returns must tell the one from the other afterwards.
        returned = (self.flag("returned") if breaks else stop) if returns else None
        outer = dict.fromkeys((*context.returned, *context.done))
        flags = tuple(f for f in dict.fromkeys((*outer, stop, returned)) if f is not None)
        inner = _Flags((), stop, flags if returns else ())
        body = yield self.rewrite(statement.body, inner)
        setup = [_set(f, False, statement.span) for f in dict.fromkeys((stop, returned)) if f is not None]
        return [*setup, Loop(statement.span, statement, tuple(body), stop)], returned


def flattened(body: Iterable[ast.Stmt]) -> tuple[ast.Stmt, ...]:
    """The statements with those of a `with` in its place: what it says of them is known by where they stand."""
    result: list[ast.Stmt] = []
    stack = [*body][::-1]
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.With):
            stack += statement.body[::-1]
        else:
            result.append(statement)
    return tuple(result)


def _last_test(statement: ast.For | ast.While) -> ast.Expr | None:
    """The test of `if …: break` at the end of a loop over a range that is left in no other way."""
    match statement:
        case ast.For(iterable=ast.Call(function=ast.Name(id="range")), body=(*_, last)):
            pass
        case _:
            return None
    match last:
        case ast.If(clauses=((test, (ast.Break(),)),), otherwise=()):
            kinds = (ast.Return, ast.Break, ast.Continue)
            others = any(run(_leaves(statement.body[:-1], kind)) for kind in kinds)
            return None if others else test
    return None


def too_deep(diagnostics: Diagnostics, span: Span) -> Abort:
    """Report blocks that nest too deep."""
    return diagnostics.fail(
        "E004",
        f"more than {MAX_DEPTH} blocks inside each other",
        span,
        "each branch, loop, `elif` and statement after an early exit nests one deeper: split the function",
    )


def _as_branch(statement: ast.If) -> Branch:
    """`if a … elif b … else …` as `if a … else: (if b … else …)`."""
    (test, then), *others = statement.clauses
    otherwise = statement.otherwise
    if others:
        otherwise = (ast.If(others[0][0].span, tuple(others), otherwise),)
    return Branch(statement.span, test, then, otherwise)


def _leaves(body: tuple[ast.Stmt, ...], kind: type[ast.Return] | type[ast.Break] | type[ast.Continue]) -> Walk:
    """Whether a return, or a break or continue of the loop with this body, stands in the body."""
    for statement in body:
        if isinstance(statement, kind):
            return True
        inner: list[tuple[ast.Stmt, ...]] = []
        if isinstance(statement, ast.If):
            inner = [*(clause for _, clause in statement.clauses), statement.otherwise]
        elif (isinstance(statement, ast.For | ast.While) and kind is ast.Return) or isinstance(statement, ast.With):
            inner = [statement.body]
        for part in inner:
            if (yield _leaves(part, kind)):
                return True
    return False


def gives_values(body: tuple[ast.Stmt, ...]) -> bool:
    """Whether some `return` in the body has a value that is not written as None."""
    pending = [*body]
    while pending:
        match pending.pop():
            case ast.Return(value=value):
                if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
                    return True
            case ast.If(clauses=clauses, otherwise=otherwise):
                pending += [*(inner for _, clause in clauses for inner in clause), *otherwise]
            case ast.For(body=inner) | ast.While(body=inner) | ast.With(body=inner):
                pending += inner
    return False


def _is_true(test: ast.Expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _set(flag: str, value: bool, span: Span) -> ast.Stmt:
    return ast.Assign(span, (ast.Name(span, flag),), ast.Constant(span, value), None)


def _unless(flag: str, body: Iterable[ast.Stmt], span: Span) -> ast.Stmt:
    return Branch(span, ast.UnaryOp(span, "not", ast.Name(span, flag)), tuple(body), ())  # type: ignore[return-value]
