"""The reference of ops, generated from schemas and formulas: pages in docs/ops, and what `gradscript ops NAME` prints.

    python -m gradscript.authoring.cli.reference [FOLDER]       writes the pages, to docs/ops if no folder is named

A formula's comment may have a line `# kink: …`: what the gradient is where there is none, or more than one.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

from ...compiler.formulas.library import compile_formula, formula_name
from ...compiler.ops.composite import is_composite
from ...compiler.ops.registry import OPS, Op, Trait
from ...compiler.spelling.names import MODULES, OWN
from ...compiler.types.schema import Argument, FunctionSchema
from ...lang.diagnostics import nearest
from ...stdlib_grads import formula_files
from .loading import CliError

TITLES: dict[str, str] = {
    "pointwise": "Pointwise",
    "comparison": "Comparison and selection",
    "activations": "Activations",
    "special": "Special functions",
    "reduction": "Reductions, order and scans",
    "softmax": "Softmax",
    "matmul": "Matrix products",
    "linalg": "Linear algebra",
    "shape": "Shape",
    "indexing": "Indexing",
    "creation": "Creation and conversion",
    "convolution": "Convolution",
    "pooling": "Pooling, padding and resizing",
    "norms": "Normalization",
    "losses": "Losses",
    "attention": "Attention and gating",
    "random": "Random numbers and dropout",
    "lists": "Lists of tensors",
    "functional": "More of torch.nn.functional",
    "functional_losses": "More losses of torch.nn.functional",
    "sampling": "Images at given places",
    "composites": "More of torch and torch.linalg",
    "torchscript": "Names of TorchScript",
    "hints": "What a backward keeps",
}
"""The page of each file of formulas, in the order of the index."""

CONSTANT = "constant"
CONSTANT_TITLE = "Without a gradient"
KINK = "# kink: "
_PREFIXES = {prefix: module for module, prefix in MODULES.items() if prefix}
_DEF = re.compile(r"^def (\w+)\(", re.MULTILINE)
_HEADER = """<!-- Written by `make reference`; a test fails when it is stale. -->
"""


def describe_op(name: str) -> str:
    """Every overload that a name may mean, as text; CliError for an unknown name."""
    base = name.rpartition("::")[2].partition(".")[0]
    found = list(OPS.overloads(base)) or list(OPS.overloads(base.removeprefix("torch")))
    if not found:
        hint = nearest(base, OPS.names())
        raise CliError(f"there is no op '{name}'{hint}")
    return "\n\n".join(_text(op) for op in found)


def _text(op: Op) -> str:
    lines = [call_text(op), f"  schema   {op.schema}"]
    for label, value in (("also", _aliases(op)), ("is", _kind(op)), ("saves", saved(op)), ("kink", kink_of(op))):
        if value:
            lines.append(f"  {label:<8} {value}")
    source = source_of(op)
    if source:
        lines += ["", *(f"    {line}".rstrip() for line in source.splitlines())]
    return "\n".join(lines)


# --- what there is to say about an op ---


def torch_name_of(name: str) -> str:
    """`torch.linalg.norm` of `linalg_norm`."""
    for prefix, module in _PREFIXES.items():
        if name.startswith(prefix) and name != prefix:
            return f"{module}.{name.removeprefix(prefix)}"
    return f"{'gs' if name in OWN else 'torch'}.{name}"


def call_text(op: Op) -> str:
    """The call in Python's notation, as torch's documentation writes it."""
    schema = op.schema
    results = ", ".join(str(r.type) for r in schema.returns)
    arrow = results if len(schema.returns) == 1 else f"({results})"
    return f"{torch_name_of(schema.base_name)}({', '.join(_parameters(schema))}) -> {arrow}"


def _parameters(schema: FunctionSchema) -> list[str]:
    parts: list[str] = []
    for argument in schema.arguments:
        if argument.keyword_only and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(argument))
    return parts


def _parameter(argument: Argument) -> str:
    name = "input" if argument.name == "self" else argument.name
    if argument.required:
        return name
    default = argument.default
    return f"{name}={list(default) if isinstance(default, tuple) else default!r}"


def _aliases(op: Op) -> str:
    return ", ".join(torch_name_of(name) for name in OPS.spellings(op)[1:])


def _kind(op: Op) -> str:
    if op.has(Trait.NONDIFFERENTIABLE):
        return "constant in pieces: no gradient"
    name = formula_name(op.schema)
    if name is None:
        return ""
    if is_composite(op):
        return "written in the language"
    return "a formula" if compile_formula(name).pair is not None else "differentiated through its composition"


def saved(op: Op) -> str:
    """What the forward hands to the backward: names and types."""
    name = formula_name(op.schema)
    pair = compile_formula(name).pair if name is not None else None
    return "" if pair is None else ", ".join(f"{item.name}: {item.type}" for item in pair.context) or "nothing"


def kink_of(op: Op) -> str:
    """The convention at kinks, from the formula's comment."""
    name = formula_name(op.schema)
    source = _sources().get(name or "", ("", ""))[1]
    return " ".join(line.removeprefix(KINK) for line in source.splitlines() if line.startswith(KINK))


def source_of(op: Op) -> str:
    """The formula with its comment, closure included; empty where there is none."""
    return _sources().get(formula_name(op.schema) or "", ("", ""))[1]


@cache
def _sources() -> dict[str, tuple[str, str]]:
    """By function of the library: its file, and its text with the comment right above it."""
    found: dict[str, tuple[str, str]] = {}
    for file, text in formula_files().items():
        lines = text.splitlines()
        for match in _DEF.finditer(text):
            start = end = text.count("\n", 0, match.start())
            while start > 0 and lines[start - 1].startswith("#") and not lines[start - 1].startswith("# ---"):
                start -= 1
            end += 1
            while end < len(lines) and (not lines[end] or lines[end][0] in " )"):
                end += 1
            body = "\n".join(lines[start:end]).rstrip()
            found[match.group(1)] = (file.removesuffix(".grad"), body)
    return found


# --- pages ---


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    families: dict[str, list[Op]] = {}
    for op in sorted(OPS.all(), key=lambda op: (op.schema.base_name.lower(), op.schema.full_name)):
        name = formula_name(op.schema)
        family = _sources()[name][0] if name is not None else CONSTANT
        families.setdefault(family, []).append(op)
    titles = {**{f: f.capitalize() for f in families}, **TITLES, CONSTANT: CONSTANT_TITLE}
    order = [f for f in (*TITLES, *sorted(families.keys() - TITLES.keys() - {CONSTANT}), CONSTANT) if f in families]
    found = {f"{family}.md": _page(titles[family], families[family], family == CONSTANT) for family in order}
    rows = [f"| [{titles[f]}]({f}.md) | {len(families[f])} |" for f in order]
    found["README.md"] = (
        f"{_HEADER}\n# Reference of ops\n\nEvery op with its formula, in {len(order)} families. What each gradient is"
        " at a kink stands with the formula; the values, held against torch, are in"
        " [conventions](../conventions.md), and where others differ in [kinks](../kinks.md).\n\n"
        "| Family | Ops |\n|---|---|\n" + "\n".join(rows) + "\n"
    )
    return found


def _page(title: str, ops: list[Op], brief: bool) -> str:
    parts = [f"{_HEADER}\n# {title}\n"]
    if brief:
        parts.append("```text\n" + "\n".join(str(op.schema) for op in ops) + "\n```\n")
        return "\n".join(parts)
    by_name: dict[str, list[Op]] = {}
    for op in ops:
        by_name.setdefault(op.schema.base_name, []).append(op)
    for name, overloads in by_name.items():
        parts.append(f"## {torch_name_of(name)}\n")
        parts += [_section(op) for op in overloads]
    return "\n".join(parts)


def _section(op: Op) -> str:
    facts = [("Schema", f"`{op.schema}`"), ("Also", _aliases(op)), ("Is", _kind(op))]
    facts += [("Saves", _code(saved(op))), ("At a kink", kink_of(op))]
    listed = "\n".join(f"- {label}: {value}" for label, value in facts if value)
    return f"```text\n{call_text(op)}\n```\n\n{listed}\n\n```text\n{source_of(op)}\n```\n"


def _code(text: str) -> str:
    return f"`{text}`" if text and text != "nothing" else text


def write_pages(folder: Path) -> list[str]:
    """Write every page to a folder; the names of those that changed. Pages of families that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = pages()
    changed = [name for name, text in texts.items() if _differs(folder / name, text)]
    for name in changed:
        (folder / name).write_text(texts[name], encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.name not in texts:
            path.unlink()
            changed.append(path.name)
    return changed


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text


if __name__ == "__main__":
    default = Path(__file__).parents[2] / "docs" / "ops"
    written = write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
    sys.stdout.write("".join(f"{name}\n" for name in written) or "no page changed\n")
