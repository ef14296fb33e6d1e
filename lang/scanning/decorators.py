"""Decorators, of which TorchScript's few are known: taken out of the tokens, before a grammar reads what follows.

`@torch.jit.script` and `@torch.jit.export` say what is so anyway. A function under `@torch.jit.ignore` or
`@torch.jit.unused` is Python's: it is passed over whole, whatever it is written in, and may not be called. From what
one under `@torch.no_grad()` computes no gradient flows.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..light_dataclasses import dataclass, field
from .tokens import END, LAYOUT, Token

_IDLE = frozenset(("torch.jit.script", "torch.jit.export", "gs.script"))
_IGNORED = frozenset(("torch.jit.ignore", "torch.jit.unused"))


_SWITCHES = {"torch.no_grad": False, "torch.inference_mode": False, "torch.enable_grad": True}
_MODES = {**_SWITCHES, **{f"{name}()": mode for name, mode in _SWITCHES.items()}}
"""What says of a whole function what `with` says of its lines."""


@dataclass
class Decorated:
    """The tokens without known decorators and ignored functions; what was left out."""

    tokens: list[Token]
    ignored: dict[str, str] = field(default_factory=dict)
    """The decorator of each ignored function, by its name."""
    modes: dict[int, bool] = field(default_factory=dict)
    """Whether gradients flow from what a function computes, by where its `def` stands."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """From where to where the ignored functions stand, in the order of the text."""

    def leaves_out(self, offset: int) -> bool:
        return any(start <= offset < end for start, end in self.ranges)


def without_decorators(tokens: list[Token]) -> Decorated:
    """Take out what is known of decorators; what is unknown stays, for the parser to refuse."""
    result = Decorated([])
    if not any(token.kind == "@" for token in tokens):
        result.tokens = tokens
        return result
    index = depth = 0
    while index < len(tokens):
        token = tokens[index]
        depth += (token.kind == "INDENT") - (token.kind == "DEDENT")
        starts_line = not depth and (not index or tokens[index - 1].kind in LAYOUT)
        if starts_line and token.kind == "@":
            index = _function(tokens, index, result)
            continue
        result.tokens.append(token)
        index += 1
    return result


def _function(tokens: list[Token], index: int, result: Decorated) -> int:
    """Take in the decorators from `index` on, and the function below if they say to ignore it. Where to go on."""
    names: list[str] = []
    start = index
    while tokens[index].kind == "@":
        end = _line_end(tokens, index)
        text = "".join(token.text for token in tokens[index + 1 : end])
        dotted = "".join(_dotted(tokens[index + 1 : end]))
        # `torch.inference_mode(False)` is no mode that is known.
        names.append(text if dotted in _MODES else dotted)
        index = end + 1
        if index >= len(tokens):
            break
    known = all(name in _MODES or name in _IDLE | _IGNORED for name in names)
    if not known or index >= len(tokens) or tokens[index].kind != "def":
        result.tokens += tokens[start:index]
        return index
    ignoring = next((name for name in names if name in _IGNORED), None)
    if ignoring is None:
        result.modes.update((tokens[index].start, _MODES[name]) for name in names if name in _MODES)
        return index
    result.ignored[tokens[index + 1].text] = ignoring
    end = _block_end(tokens, index)
    result.ranges.append((tokens[start].start, tokens[end - 1].end))
    return end


def _dotted(tokens: list[Token]) -> Iterator[str]:
    """The name that a decorator begins with: `torch.jit.ignore` of `torch.jit.ignore(drop=True)`."""
    for token in tokens:
        if token.kind not in ("NAME", "."):
            return
        yield token.text


def _line_end(tokens: list[Token], index: int) -> int:
    while tokens[index].kind not in ("NEWLINE", END):
        index += 1
    return index


def _block_end(tokens: list[Token], index: int) -> int:
    """Where what follows a function begins, the function's header being at `index`."""
    index = _line_end(tokens, index)
    if tokens[index].kind == END or tokens[index + 1].kind != "INDENT":
        return index + (tokens[index].kind != END)
    depth = 0
    index += 1
    while tokens[index].kind != END:
        depth += (tokens[index].kind == "INDENT") - (tokens[index].kind == "DEDENT")
        index += 1
        if not depth:
            break
    return index
