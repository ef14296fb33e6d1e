"""What emits each kind of syntax, and each call that is emitted from its syntax: the one table."""

from __future__ import annotations

from ...lang import ast
from .emitter import Evaluated, Handlers, InnerCall
from .exits import Branch, Left, Loop, Missing
from .expressions.calls import emit_call
from .expressions.comprehensions import emit_list_comprehension, emit_stray_generator
from .expressions.forms import (
    emit_annotate,
    emit_divmod,
    emit_len,
    emit_limits,
    emit_list_call,
    emit_tuple_call,
    emit_unwrap_optional,
)
from .expressions.gradients import emit_autograd_add, emit_autograd_zero, emit_materialize_grad
from .expressions.lambdas import emit_stray_lambda
from .expressions.simple import (
    emit_attribute,
    emit_binary_op,
    emit_bool_op,
    emit_compare,
    emit_conditional,
    emit_constant,
    emit_evaluated,
    emit_list,
    emit_name,
    emit_stray_slice,
    emit_stray_star,
    emit_tuple,
    emit_unary,
)
from .expressions.slices import emit_slice_call
from .expressions.strings import emit_formatted_value, emit_joined_str
from .expressions.subscripts import emit_subscript
from .expressions.type_tests import emit_is_scripting, emit_is_tensor, emit_is_tracing, emit_isinstance
from .statements.called import emit_written_out
from .statements.functions import emit_closure
from .statements.loops import emit_loop
from .statements.simple import (
    emit_assert,
    emit_assign,
    emit_aug_assign,
    emit_branch,
    emit_delete,
    emit_expression_statement,
    emit_left,
    emit_missing,
    emit_pass,
    emit_raise,
)

HANDLERS = Handlers(
    expressions={
        Evaluated: emit_evaluated,
        InnerCall: emit_written_out,
        ast.Name: emit_name,
        ast.Constant: emit_constant,
        ast.TupleExpr: emit_tuple,
        ast.ListExpr: emit_list,
        ast.Starred: emit_stray_star,
        ast.ListComp: emit_list_comprehension,
        ast.GeneratorExp: emit_stray_generator,
        ast.Attribute: emit_attribute,
        ast.Subscript: emit_subscript,
        ast.Slice: emit_stray_slice,
        ast.Call: emit_call,
        ast.UnaryOp: emit_unary,
        ast.BinaryOp: emit_binary_op,
        ast.BoolOp: emit_bool_op,
        ast.Compare: emit_compare,
        ast.Conditional: emit_conditional,
        ast.Lambda: emit_stray_lambda,
        ast.JoinedStr: emit_joined_str,
        ast.FormattedValue: emit_formatted_value,
    },
    statements={
        ast.Assign: emit_assign,
        ast.AugAssign: emit_aug_assign,
        ast.Delete: emit_delete,
        ast.ExprStmt: emit_expression_statement,
        ast.Pass: emit_pass,
        ast.Assert: emit_assert,
        ast.Raise: emit_raise,
        ast.FunctionDef: emit_closure,
        Branch: emit_branch,
        Loop: emit_loop,
        Left: emit_left,
        Missing: emit_missing,
    },
    forms={
        "torch.jit.annotate": emit_annotate,
        "torch.jit._unwrap_optional": emit_unwrap_optional,
        "divmod": emit_divmod,
        "len": emit_len,
        "list": emit_list_call,
        "tuple": emit_tuple_call,
        "slice": emit_slice_call,
        "torch.finfo": emit_limits,
        "torch.iinfo": emit_limits,
        "gs.autograd_zero": emit_autograd_zero,
        "gs.autograd_add": emit_autograd_add,
        "gs.materialize_grad": emit_materialize_grad,
    },
    tests={
        "isinstance": emit_isinstance,
        "torch.is_tensor": emit_is_tensor,
        "torch.jit.is_scripting": emit_is_scripting,
        "torch.jit.is_tracing": emit_is_tracing,
    },
)
