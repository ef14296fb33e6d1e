"""What a program holds at once of what is neither given to it nor asked of it: its allocations, replayed."""

from __future__ import annotations

from ...compiler.fusion.program import ExternStep, KernelStep, Program, ProgramStep, Ref, names_in


def most_held(program: Program) -> int:
    """Bytes at the moment at which they are the most, arguments, constants and results left out.

    A step allocates what it writes first, and frees what is read for the last time when it has run. What lies in the
    memory of something else, a view or a result in the place of what is read, takes none.
    """
    roots = {name: name for name in (*program.constants, *program.input_names)}
    last: dict[str, int] = {}
    for position, step in enumerate(program.steps):
        for name in step.written:
            roots.setdefault(name, _root(step, name, roots))
        for name in (*step.read, *step.written):
            last[roots.get(name, name)] = position
    outputs = {roots.get(name, name) for output in program.outputs for name in names_in(output)}
    kept = {*program.constants, *program.input_names, *outputs}
    held: dict[str, int] = {}
    most = 0
    for position, step in enumerate(program.steps):
        for name in step.written:
            root = roots[name]
            if root not in kept and root in program.layouts:
                held.setdefault(root, program.layouts[root].meta.nbytes)
        most = max(most, sum(held.values()))
        held = {name: size for name, size in held.items() if last[name] > position}
    return most


def _root(step: ProgramStep, name: str, roots: dict[str, str]) -> str:
    """The tensor in whose memory a step writes a result."""
    if isinstance(step, ExternStep):
        source = step.arguments[0] if step.is_view else None
        return roots.get(source.name, source.name) if isinstance(source, Ref) else name
    assert isinstance(step, KernelStep)
    buffer = next(b for b in step.kernel.outputs if step.arguments[b.name] == name)
    source_name = step.arguments[buffer.place_of] if buffer.place_of else name
    return roots.get(source_name, source_name)
