"""The text of each stage of compilation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ...compiler.ir.graph import Callee
from ...lang import ast
from ...lang.diagnostics import CompileError
from ...lang.dump import dump

Stage = Callable[[Callee, "ast.FunctionDef | None"], str]


def _show_source(callee: Callee, definition: ast.FunctionDef | None) -> str:
    """The text of the definition as its author wrote it."""
    return source_text(_of_source(callee, definition))


def _show_ast(callee: Callee, definition: ast.FunctionDef | None) -> str:
    return dump(_of_source(callee, definition))


def _show_ir(callee: Callee, _: ast.FunctionDef | None) -> str:
    return str(callee.graph)


def _show_closure(callee: Callee, _: ast.FunctionDef | None) -> str:
    _require_pair(callee)
    from ...compiler.unparse import unparse_closure_stage

    return unparse_closure_stage(callee)


def _show_lifted(callee: Callee, _: ast.FunctionDef | None) -> str:
    """The pair as two plain functions; of a function without one, the two halves that differentiating it gives."""
    from ...compiler.unparse import unparse_pair, unparse_program

    if callee.pair is not None:
        return unparse_pair(callee.pair)
    from ...compiler.autodiff.derived import derived_halves

    return unparse_program(*derived_halves(callee))


def _show_gradient(callee: Callee, _: ast.FunctionDef | None) -> str:
    """f and df of the function, differentiated by its own backward if it has one."""
    from ...compiler.autodiff import differentiate
    from ...compiler.autodiff.differentiable import differentiable_graph

    gradient = differentiate(differentiable_graph(callee), results_are_asked=True)
    return f"{gradient.f.text(alone=True)}\n{gradient.df.text(alone=True)}"


def _show_optimized(callee: Callee, _: ast.FunctionDef | None) -> str:
    """What a call runs, for arguments of any kind; then the two halves that a pullback runs, if there is a gradient."""
    from ...compiler.autodiff import differentiate
    from ...compiler.autodiff.differentiable import differentiable_graph
    from ..execution.compilation import compile_graph, prepare_gradient

    graphs = [compile_graph(callee.graph, None)]
    with suppress(CompileError):
        graph = prepare_gradient(differentiable_graph(callee))
        gradient = differentiate(graph, temporaries=False, results_are_asked=True)
        if gradient.output_vjps:
            graphs += [compile_graph(half, None) for half in (gradient.f, gradient.df)]
    return "\n".join(map(str, graphs))


STAGES: dict[str, Stage] = {
    "source": _show_source,
    "ast": _show_ast,
    "ir": _show_ir,
    "closure": _show_closure,
    "lifted": _show_lifted,
    "gradient": _show_gradient,
    "optimized": _show_optimized,
}
"""The stages in the order of compilation. One that does not apply to a function raises ValueError, with the reason."""


def source_text(definition: ast.FunctionDef) -> str:
    """The text of a definition, whole lines up to the end of its last statement."""
    end = definition.span.end
    pending: list[ast.Syntax] = [definition]
    while pending:
        node = pending.pop()
        end = max(end, node.span.end)
        pending += ast.children(node)
    text = definition.span.source.text
    newline = text.find("\n", end)
    return text[definition.span.start : newline if newline != -1 else len(text)].rstrip() + "\n"


def _of_source(callee: Callee, definition: ast.FunctionDef | None) -> ast.FunctionDef:
    if definition is None:
        raise ValueError(f"no source text defines '{callee.schema.name}': it was made from other functions")
    return definition


def _require_pair(callee: Callee) -> None:
    if callee.pair is None:
        name = callee.schema.name
        raise ValueError(f"'{name}' returns no closure: this stage shows what becomes of a `def backward`")
