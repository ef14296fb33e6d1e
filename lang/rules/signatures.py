"""The order and the names of parameters and of arguments."""

from __future__ import annotations

from .. import ast
from ..diagnostics import Diagnostics
from ..source import Span


def check_parameters(
    items: list[ast.Parameter | Span], diagnostics: Diagnostics, what: str = "parameter"
) -> tuple[ast.Parameter, ...]:
    """The parameters, those after the bare `*` (given by its span) marked keyword-only."""
    parameters: list[ast.Parameter] = []
    marker: Span | None = None
    names: set[str] = set()
    for item in items:
        if isinstance(item, Span):
            if marker is not None:
                diagnostics.report("E101", "a second '*' among the parameters", item, "remove it; one is enough")
            marker = item
            continue
        if item.name in names:
            diagnostics.report("E105", f"duplicate {what} '{item.name}'", _name_span(item), "rename one of the two")
        names.add(item.name)
        if marker is not None:
            item = ast.Parameter(item.span, item.name, item.annotation, item.default, True)
        elif item.default is None and parameters and parameters[-1].default is not None:
            note = f"give it a default, or move it before '{_first_default(parameters)}'"
            message = f"{what} '{item.name}' without a default follows one with a default"
            diagnostics.report("E101", message, item.span, note)
        parameters.append(item)
    if marker is not None and not (parameters and parameters[-1].keyword_only):
        diagnostics.report("E101", "no parameter follows '*'", marker, "name the keyword-only parameters after it")
    return tuple(parameters)


def _first_default(parameters: list[ast.Parameter]) -> str:
    return next(parameter.name for parameter in parameters if parameter.default is not None)


def _name_span(parameter: ast.Parameter) -> Span:
    span = parameter.span
    return Span(span.source, span.start, min(span.end, span.start + len(parameter.name)))


def check_arguments(
    items: list[ast.Expr | ast.Keyword], diagnostics: Diagnostics
) -> tuple[tuple[ast.Expr, ...], tuple[ast.Keyword, ...]]:
    """The positional and the keyword arguments of a call."""
    args: list[ast.Expr] = []
    keywords: list[ast.Keyword] = []
    names: set[str] = set()
    for item in items:
        if isinstance(item, ast.Keyword):
            if item.name in names:
                span = Span(item.span.source, item.span.start, item.value.span.start)
                name = Span(span.source, span.start, span.start + len(item.name))
                diagnostics.report("E101", f"keyword argument '{item.name}' is repeated", name, "remove one of the two")
            names.add(item.name)
            keywords.append(item)
            continue
        if keywords:
            note = f"name it, or move it before '{keywords[0].name}='"
            diagnostics.report("E101", "positional argument follows a keyword argument", item.span, note)
        args.append(item)
    return tuple(args), tuple(keywords)
