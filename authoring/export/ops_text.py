"""The ops of torch.library: forward and backward, their fakes, and what autograd is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...compiler.types.schema import Argument
from ...compiler.types.types import OptionalType, strip_optional
from .facts import ExportFacts, targets, tuple_of
from .python_text import WIDTH, wrapped_line
from .signature import SampleShape

HELD = 8192
"""Columns of a row that one program holds; longer ones are walked in blocks."""
NAMESPACE = "gradscript"


class OpsText(ExportFacts):
    """Writes the registrations."""

    def texts(self) -> Iterator[str]:
        seed = ["seed"] if self.has_seed else []
        names = [a.name for a in self.arguments]
        given = ", ".join([*names, *seed])
        referred = ", ".join([*names, *(f"{name}={name}" for name in seed)])
        typed = ", ".join([self.parameters(self.arguments, defaults=False), *(["seed: int"] if seed else [])])
        outputs = ["Tensor"] * (self.results + len(self.saved))
        returns = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
        hint = "Tensor" if len(outputs) == 1 else "tuple[Tensor, ...]"
        schema = ", ".join([*map(_schema_of, self.arguments), *(["int seed"] if seed else [])])
        fits = f"_fits({', '.join(names)})"
        contiguous = [a.name for a in self.tensors if self.is_present(a)]
        said = "What the backward is to have stands behind the results." if self.saved else "Its gradients follow."
        yield "\n".join(
            [
                *_decorated(self.op_name, f"({schema}) -> {returns}"),
                *wrapped_line(f"def _{self.name}_op({typed}) -> {hint}:", ""),
                f'    """The op. {said}"""',
                f"    if {fits}:",
                *self._made_contiguous(contiguous, "        "),
                *self._dispatch("forward", given, "        "),
                f"    {self._unpacked('found')} = _reference({referred})",
                *self._returned_by_torch(),
            ]
        )
        yield "\n".join(
            [
                f"@_{self.name}_op.register_fake",
                *wrapped_line(f"def _({typed}) -> {hint}:", ""),
                f"    {self._unpacked('found')} = _reference({referred})",
                *self._returned_by_fake(fits),
            ]
        )
        if self.has_gradient:
            yield from self._backward_ops(given, typed, schema)

    def _made_contiguous(self, names: Sequence[str], margin: str) -> list[str]:
        taken = ", ".join(names)
        given = ", ".join(f"{name}.contiguous()" for name in names)
        return (
            wrapped_line(f"{taken} = {given}", margin)
            if len(taken) + len(given) < WIDTH - 15
            else [f"{margin}{name} = {name}.contiguous()" for name in names]
        )

    def _dispatch(self, which: str, given: str, margin: str) -> list[str]:
        call = f"_{which}"
        if len(self.launchers) == 1 or not getattr(self.launchers[1], which):
            return wrapped_line(f"return {call}({given})", margin)
        shape = next(a.name for a in self.tensors if self._has_columns(a))
        place = self._columns_at(shape)
        return [
            f"{margin}if {shape}.shape[{place}] > {HELD}:",
            *wrapped_line(f"return {call}_long({given})", f"{margin}    "),
            *wrapped_line(f"return {call}({given})", margin),
        ]

    def _has_columns(self, argument: Argument) -> bool:
        given = self.signature.arguments[self.arguments.index(argument)]
        return isinstance(given, SampleShape) and any(size.is_columns for size in given.sizes)

    def _columns_at(self, name: str) -> int:
        given = self.signature.arguments[[a.name for a in self.arguments].index(name)]
        place = next(i for i, size in enumerate(given.sizes) if size.is_columns)
        return place - len(given.sizes)

    def _unpacked(self, name: str) -> str:
        return name if self.results == 1 else ", ".join(f"{name}_{i}" for i in range(self.results))

    def _results(self, name: str) -> list[str]:
        return [name] if self.results == 1 else [f"{name}_{i}" for i in range(self.results)]

    def _returned_by_torch(self) -> list[str]:
        inputs = [a.name for a in self.tensors]
        results = self._results("found")
        lines = [f"    {r} = _own({', '.join([r, *inputs, *results[:i]])})" for i, r in enumerate(results)]
        empty = [f"{results[0]}.new_empty(0, dtype=torch.float32)" for _ in self.saved]
        return [*lines, *_returned([*results, *empty], "    ")]

    def _returned_by_fake(self, fits: str) -> list[str]:
        results = [f"{r}.new_empty({r}.shape)" for r in self._results("found")]
        if not self.saved:
            together = ", ".join(results)
            return (
                wrapped_line(f"return {together}", "    ")
                if len(results) == 1
                else ["    return (", *(f"        {r}," for r in results), "    )"]
            )
        lines = [f"    {name} = {text}" for name, text in zip(self._results("found"), results, strict=True)]
        made = self.launchers[0].saved
        lines += [f"    if not {fits}:"]
        first = self._results("found")[0]
        empty = f"{first}.new_empty(0, dtype=torch.float32)"
        lines += _returned([*self._results("found"), *[empty] * len(made)], "        ")
        lines += [f"    {line}" for line in self.launchers[0].bindings]
        lines += ["    return ("]
        lines += [f"        {each}," for each in (*self._results("found"), *made.values())]
        return [*lines, "    )"]

    def _backward_ops(self, given: str, typed: str, schema: str) -> Iterator[str]:
        saved = [*self.kept_results.values(), *self.saved]
        tensors = ", ".join(f"{name}: Tensor" for name in [*self.grads, *saved])
        full_schema = f"({', '.join([*(f'Tensor {name}' for name in [*self.grads, *saved]), schema])}) -> Tensor[]"
        taken = ", ".join([*self.grads, *saved, given])
        yield self._backward_op(taken, f"{tensors}, {typed}", full_schema)
        yield (
            "def _is_floating(each: Tensor | None) -> bool:\n    return each is not None and each.is_floating_point()"
        )
        yield self._backward_fake(f"{tensors}, {typed}")
        yield self._keep(saved)
        yield self._differentiated(taken, saved)
        yield (
            "def _has_gradient(each: Any) -> bool:\n    return isinstance(each, Tensor) and each.is_floating_point()"
        )
        yield (
            "def _refused(ctx: Any, *grads: Any) -> Any:\n"
            '    """Kernels have first derivatives; those of higher order are autograd\'s, of `reference`."""\n'
            "    raise RuntimeError(\n"
            f'        "{self.name}: the module has first derivatives only; for higher ones differentiate "\n'
            f'        "`reference`, the same function in plain torch"\n'
            "    )"
        )
        yield (
            f"_{self.name}_op.register_autograd(_differentiated, setup_context=_keep)\n"
            f"{self.backward}.register_autograd(_refused)"
        )

    @property
    def grads(self) -> list[str]:
        return [f"grad_{i}" for i in range(self.results)] if self.results > 1 else ["grad_output"]

    @property
    def backward(self) -> str:
        return f"_{self.name}_backward_op"

    def _backward_op(self, taken: str, typed: str, schema: str) -> str:
        """Kernels where they fit, and else what torch differentiates."""
        grads = self.grads
        fits = f"_fits({', '.join(a.name for a in self.arguments)})"
        wanted = ", ".join(f'"{a.name}": {a.name}' for a in self.tensors)
        rest = ", ".join([*(f"{a.name}={a.name}" for a in self.plain), *(["seed=seed"] if self.has_seed else [])])
        call = ", ".join(["**{**others, **chosen}", *([rest] if rest else [])])
        cotangent = grads[0] if self.results == 1 else f"({', '.join(grads)})"
        lines = [
            *_decorated(f"{self.op_name}_backward", schema),
            *wrapped_line(f"def {self.backward}({typed}) -> list[Tensor]:", ""),
            '    """The gradients of the floating tensors among the arguments, in their order."""',
            f"    if {fits}:",
            *self._made_contiguous([*grads, *(a.name for a in self.tensors if self.is_present(a))], "        "),
            *self._dispatch("backward", taken, "        "),
            f"    given: dict[str, Any] = {{{wanted}}}",
            "    chosen = {name: each for name, each in given.items() if _is_floating(each)}",
            "    others = {name: each for name, each in given.items() if name not in chosen}",
            "",
            "    def of(chosen: dict[str, Tensor]) -> Any:",
            f"        return _reference({call})",
            "",
            "    pullback = torch.func.vjp(of, chosen)[1]",
            f"    (found,) = pullback({cotangent})",
            "    results: list[Tensor] = []",
            "    for name in chosen:",
            f"        results.append(_own(found[name], {', '.join(grads)}, *chosen.values(), *results))",
            "    return results",
        ]
        return "\n".join(lines)

    def _backward_fake(self, typed: str) -> str:
        lines = [
            f"@{self.backward}.register_fake",
            *wrapped_line(f"def _({typed}) -> list[Tensor]:", ""),
            f"    given = ({', '.join(a.name for a in self.tensors)}{',' if len(self.tensors) == 1 else ''})",
            "    floating = [each for each in given if each is not None and each.is_floating_point()]",
            "    return [each.new_empty(each.shape) for each in floating]",
        ]
        return "\n".join(lines)

    def _keep(self, saved: Sequence[str]) -> str:
        """What autograd is to keep between the two."""
        names, plain_names = self._kept_names()
        lines = [
            "def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:",
            '    """What the backward is to have: the arguments'
            + (", and statistics of rows." if saved else ".")
            + '"""',
            f"    {targets(self._order())} = inputs",
        ]
        lines += [f"    ctx.plain = {tuple_of(plain_names)}"] if plain_names else []
        lines += [f"    ctx.save_for_backward({', '.join([', '.join(names), *self._kept_of_output()])})"]
        return "\n".join(lines)

    def _differentiated(self, taken: str, saved: Sequence[str]) -> str:
        names, plain_names = self._kept_names()
        order = self._order()
        restored = [f"    {targets([*names, *saved])} = ctx.saved_tensors"]
        restored += [f"    {targets(plain_names)} = ctx.plain"] if plain_names else []
        first = ", ".join(_typed_grads([*self.grads, *(["*_"] if self.saved else [])]))
        lines = [
            *wrapped_line(f"def _differentiated(ctx: Any, {first}) -> tuple[Tensor | None, ...]:", ""),
            *restored,
            *wrapped_line(f"found = iter({self.backward}({taken}))", "    "),
            f"    given = ({', '.join(order)}{',' if len(order) == 1 else ''})",
            "    return tuple(next(found) if _has_gradient(each) else None for each in given)",
        ]
        return "\n".join(lines)

    def _kept_names(self) -> tuple[list[str], list[str]]:
        """The arguments that are tensors, and the others."""
        plain = [*(a.name for a in self.plain), *(["seed"] if self.has_seed else [])]
        return [a.name for a in self.tensors], plain

    def _order(self) -> list[str]:
        return [*(a.name for a in self.arguments), *(["seed"] if self.has_seed else [])]

    def _kept_of_output(self) -> list[str]:
        is_single = self.results == 1 and not self.saved
        kept = ["output" if is_single else f"output[{i}]" for i in self.kept_results]
        return [*kept, *([f"*output[{self.results}:]"] if self.saved else [])]


def _returned(parts: Sequence[str], margin: str) -> list[str]:
    """A return of several, on lines of their own where one is too short."""
    line = f"{margin}return {', '.join(parts)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{margin}return (", *(f"{margin}    {part}," for part in parts), f"{margin})"]


def _decorated(name: str, schema: str) -> list[str]:
    lines = ["@torch.library.custom_op(", f'    "{NAMESPACE}::{name}",', "    mutates_args=(),"]
    if len(schema) + len('        ""') <= WIDTH:
        return [*lines, f'    schema="{schema}",', ")"]
    parts = [schema[i : i + 76] for i in range(0, len(schema), 76)]
    return [*lines, "    schema=(", *(f'        "{part}"' for part in parts), "    ),", ")"]


def _schema_of(argument: Argument) -> str:
    """A parameter as torch's schemas have it; defaults are those of the function in front."""
    type = argument.type
    optional = isinstance(type, OptionalType)
    name = {"Tensor": "Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str"}.get(
        str(strip_optional(type)).partition("[")[0]
    )
    text = str(strip_optional(type))
    if text.startswith("List[") and text[5:-1] in ("int", "float", "bool"):
        name = f"{text[5:-1]}[]"
    return f"{name}{'?' if optional else ''} {argument.name}"


def _typed_grads(names: Sequence[str]) -> list[str]:
    return [f"{name}: {'Any' if name.startswith('*') else 'Tensor'}" for name in names]
