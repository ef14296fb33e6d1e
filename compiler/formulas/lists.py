"""A formula for lists in the place of tensors: its syntax, with other annotations.

    def append(self: List[Tensor], el: Tensor):              def append(self: List[List[Tensor]], el: List[Tensor]):
        def backward(grad_output: List[Tensor]):       ─▶        def backward(grad_output: List[List[Tensor]]):
            return grad_output[:-1], grad_output[-1]                 return grad_output[:-1], grad_output[-1]

The formulas of generic ops move values about and never look into them, so nothing else changes.
"""

from __future__ import annotations

from ...lang import ast
from ...lang.light_dataclasses import replace
from ..emit.annotations import dotted_name


def of_lists(function: ast.FunctionDef, depth: int) -> ast.FunctionDef:
    """The function with each Tensor of its parameters, and its closures', so many lists deep."""
    if not depth:
        return function
    body = tuple(_annotated(s, depth) if isinstance(s, ast.FunctionDef) else s for s in function.body)
    return replace(_annotated(function, depth), body=body)


def _annotated(function: ast.FunctionDef, depth: int) -> ast.FunctionDef:
    return replace(function, parameters=tuple(_parameter(parameter, depth) for parameter in function.parameters))


def _parameter(parameter: ast.Parameter, depth: int) -> ast.Parameter:
    if parameter.annotation is not None:
        return replace(parameter, annotation=_deeper(parameter.annotation, depth))
    if parameter.default is not None:
        return parameter
    return replace(parameter, annotation=_deeper(ast.Name(parameter.span, "Tensor"), depth))


def _deeper(annotation: ast.Expr, depth: int) -> ast.Expr:
    """An annotation with lists around its Tensor. Annotations are shallow, so this recurses."""
    if isinstance(annotation, ast.Subscript):
        return replace(annotation, index=_deeper(annotation.index, depth))
    if dotted_name(annotation) != "Tensor":
        return annotation
    for _ in range(depth):
        annotation = ast.Subscript(annotation.span, ast.Name(annotation.span, "List"), annotation)
    return annotation
