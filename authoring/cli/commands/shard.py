"""`gradscript shard`: the placements of DTensor that a function keeps to, and what forbids others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from ....compiler.ops.meta import UNKNOWN, Meta
from ....compiler.sharding.derive import RefusedSharding, Way
from ....lang.light_dataclasses import dataclass
from ....lang.source import Span
from ....runtime.values.text_tables import table
from ....runtime.values.torch_needed import require_torch
from ..console import emit
from ..described import DescribedCall, on_described_call
from ..loading import CliError


@on_described_call
def shard(call: DescribedCall, as_json: bool) -> None:
    """Print how a function runs on parts of tensors (DTensor), as gs.torch_op registers it, and what forbids the rest.

    A row is one way along one dimension of a mesh: where arguments are, and where that leaves the results.
    """
    found = sharding_of(call)
    if as_json:
        click.echo(json.dumps({"ops": [rules.to_dict() for rules in found]}, indent=2))
    else:
        emit("\n\n".join(map(str, found)))


@dataclass(frozen=True)
class Rules:
    """One op: its arguments and results by name, the ways to run it in parts, and what is in the way of others."""

    op: str
    arguments: Sequence[str]
    results: Sequence[str]
    ways: Sequence[Way]
    refused: Sequence[tuple[str, str, str]]
    """What is cut, why that does not go, and the line that says so."""

    def __str__(self) -> str:
        rows = [
            [*(_text(place) for place in way.arguments), "->", *(_text(place) for place in way.results)]
            for way in self.ways
        ]
        parts = [f"{self.op}:", table([*self.arguments, "", *self.results], rows)]
        together: dict[tuple[str, str], list[str]] = {}
        for what, reason, line in self.refused:
            together.setdefault((reason, line), []).append(what)
        for (reason, line), whats in together.items():
            parts.append(f"  not {', '.join(whats)}: {reason}")
            parts += [f"    {line}"] if line else []
        return "\n".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        ways = [
            {"arguments": [_text(p) for p in w.arguments], "results": [_text(p) for p in w.results]} for w in self.ways
        ]
        refused = [{"what": what, "reason": reason, "line": line} for what, reason, line in self.refused]
        return {"op": self.op, "arguments": [*self.arguments], "ways": ways, "refused": refused}


def sharding_of(call: DescribedCall) -> list[Rules]:
    """The rules of a function, of its forward and of its backward. CliError where torch is missing."""
    try:
        require_torch("gradscript shard")
    except ModuleNotFoundError as error:
        raise CliError(str(error)) from None
    from ....runtime.torch.library.halves import Halves
    from ....runtime.torch.library.sharding import abstract_arguments
    from ....runtime.torch.library.stages import (
        example_of_backward,
        stages_of_backward,
        stages_of_forward,
        stages_of_function,
    )

    function = call.function
    args, kwargs = call.arguments(only_shapes=True)
    values = abstract_arguments(function.bind(tuple(args), kwargs))
    names = [argument.name for argument in function.schema.arguments]
    results = _numbered("result", len(function.schema.returns))
    whole = stages_of_function(function, values)
    found = [_rules(function.name, names, results, whole, len(values))]
    halves = Halves.of(function)
    if halves is None:
        return found
    forward = stages_of_forward(halves, values)
    saved = [*results, *_numbered("saved", len(halves.forward_results) - len(results))]
    found.append(_rules(f"{function.name}_forward", names, saved, forward, len(values)))
    given = example_of_backward(halves, values)
    if UNKNOWN in given:
        return found
    gradients = [f"grad_{halves.inputs[i].name_hint}" for i in halves.wanted]
    backward = stages_of_backward(halves, given)
    found.append(_rules(f"{function.name}_backward", halves.backward_names, gradients, backward, len(given)))
    return found


def _rules(op: str, names: Sequence[str], results: Sequence[str], staged: Any, count: int) -> Rules:
    from ....runtime.torch.library.sharding import attempts, whole_way

    tried = [*attempts(staged, count)]
    found = dict.fromkeys([whole_way(staged, count), *(way for way in tried if isinstance(way, Way))])
    tensors = [i for i in range(count) if isinstance(staged.values[i], Meta)]
    way_of = {(i, way.arguments[i]) for way in found for i in tensors}
    refused: dict[str, tuple[str, str]] = {}
    for no in tried:
        if not isinstance(no, RefusedSharding):
            continue
        for i in tensors:
            place = no.arguments[i]
            if place.kind != "replicate" and (i, place) not in way_of:
                refused.setdefault(f"{names[i]} {place}", (no.reason, _line(no.node.span) if no.node else ""))
    kept = [Way(tuple(way.arguments[i] for i in tensors), way.results) for way in found]
    return Rules(op, [names[i] for i in tensors], results, kept, [(what, *why) for what, why in refused.items()])


def _line(span: Span) -> str:
    if not span.source.text:
        return ""
    return f"{span}: {span.source.line(span.line).strip()}"


def _text(place: Any) -> str:
    if isinstance(place, tuple):
        return f"[{', '.join(map(_text, place))}]"
    return "-" if place is None else str(place)


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}{i}" for i in range(count)]
