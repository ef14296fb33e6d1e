"""The formatter: what it makes of white space, and that it changes nothing else."""

from __future__ import annotations

import io
import random
import re
import tokenize
from pathlib import Path

import gradscript as gs
import pytest
from click.testing import CliRunner
from gradscript.authoring.cli.main import main
from gradscript.authoring.format.formatter import format_source
from gradscript.lang.source import Source
from gradscript.stdlib_grads import formula_files

LINES = {
    "y=x*-1": "y = x * -1",
    "y = x [ 1:,None , ::2 ]": "y = x[1:, None, ::2]",
    "y = f ( x,n = 3 )": "y = f(x, n=3)",
    "y = f ( x,n = ( 3,4 ) )": "y = f(x, n=(3, 4))",
    "g=lambda q,s = 2:q*s": "g = lambda q, s=2: q * s",
    "y = f ( lambda:x,[ lambda *,k = 1 : k ] )": "y = f(lambda: x, [lambda *, k=1: k])",
    "y=(x if-x.sum()<3 else+x)": "y = (x if -x.sum() < 3 else +x)",
    "y = [ i*2 for i in[1,2] ]": "y = [i * 2 for i in [1, 2]]",
    "y : Tensor=x": "y: Tensor = x",
    "y+=x;z=y": "y += x; z = y",
    "assert not(n==1),'no'": "assert not (n == 1), 'no'",
    "y = x**2 + x ** 2": "y = x**2 + x ** 2",
    "y = x . sum ( ) #sum": "y = x.sum()  # sum",
}


@pytest.mark.parametrize(("line", "formatted"), LINES.items())
def test_lines(line: str, formatted: str) -> None:
    head = "def f(x, n: int):\n    z = x\n    y = x\n    return y\n\n\ndef g(x, n: int):\n    {}\n    return x\n"
    made = format_source(Source(head.format(line)))
    assert made.splitlines()[7] == "    " + formatted


MESSY = """
def  f( x,y : int=3, * , k=2 ) ->Tensor :
  # first
  if(x.sum()>0) :
        x = x+1
        # in the branch
  # behind it
  def  backward ( g ):
     return g*2,None , None   
  return (x,
       ) [0] , backward
# end
def g( x ):
    \"\"\"Kept
      as it is \"\"\"


    return x
"""

CLEAN = """\
def f(x, y: int = 3, *, k=2) -> Tensor:
    # first
    if (x.sum() > 0):
        x = x + 1
        # in the branch
    # behind it
    def backward(g):
        return g * 2, None, None

    return (x,
         )[0], backward


# end
def g(x):
    \"\"\"Kept
      as it is \"\"\"

    return x
"""


def test_whole_files() -> None:
    assert format_source(Source(MESSY)) == CLEAN
    assert format_source(Source(CLEAN)) == CLEAN


@pytest.mark.parametrize("name", formula_files())
def test_the_library_is_formatted(name: str) -> None:
    text = formula_files()[name]
    assert format_source(Source(text, name)) == text


def _comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [re.sub(r"^#\s*", "", t.string).rstrip() for t in tokens if t.type == tokenize.COMMENT]


def _shaken(text: str, seed: int) -> str:
    """The text with other white space: wider and narrower gaps, deeper blocks, blank lines."""
    chance = random.Random(seed)
    made = []
    for line in text.splitlines():
        body = line.lstrip(" ")
        if '"' not in body and "'" not in body and "#" not in body:
            body = re.sub(r" (?=[-+*/=<>])", lambda _: " " * chance.randrange(1, 3), body)
            body = re.sub(r", ", lambda _: chance.choice((",", " , ", ", ")), body)
            body += " " * chance.randrange(3)
        made += [" " * (2 * (len(line) - len(line.lstrip(" ")))) + body] + [""] * (chance.random() < 0.1)
    return "\n".join(made) + "\n"


@pytest.mark.parametrize("name", sorted(formula_files())[::3])
def test_keeps_comments_and_the_ir(name: str) -> None:
    text = formula_files()[name]
    shaken = _shaken(text, len(name))
    made = format_source(Source(shaken, name))
    assert format_source(Source(made, name)) == made
    assert _comments(made) == _comments(text)
    try:
        unit = gs.CompilationUnit(text, name)
    except gs.CompileError:
        return
    for function, again in zip(unit.functions.values(), gs.CompilationUnit(made, name).functions.values(), strict=True):
        assert str(function.graph) == str(again.graph)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "f.grad"
    path.write_text(MESSY, encoding="utf-8")
    assert CliRunner().invoke(main, ["fmt", str(tmp_path), "--check"]).exit_code == 1
    assert path.read_text(encoding="utf-8") == MESSY
    assert CliRunner().invoke(main, ["fmt", str(tmp_path)]).exit_code == 0
    assert path.read_text(encoding="utf-8") == CLEAN
    assert CliRunner().invoke(main, ["fmt", str(path), "--check", "--json"]).exit_code == 0
    assert CliRunner().invoke(main, ["fmt", "-"], input=MESSY).stdout == CLEAN
    assert CliRunner().invoke(main, ["fmt", str(tmp_path / "none.grad")]).exit_code == 2
    path.write_text("def f(x:\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["fmt", str(path)])
    assert result.exit_code == 1 and "error[E" in result.stderr


def test_operators_that_begin_a_line() -> None:
    text = "def f(x, y):\n    return (x\n            +y  # more\n            -  1) * (\n        - y)\n"
    made = "def f(x, y):\n    return (x\n            + y  # more\n            - 1) * (\n        -y)\n"
    assert format_source(Source(text)) == made
