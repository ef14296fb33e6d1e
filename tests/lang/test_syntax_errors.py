"""One mistake, one finding: its code, its place, what it says and what it advises."""

from __future__ import annotations

import pytest
from lang_support import parse_text

# A statement of a function's body, the code, the text of the span, a part of the message, a part of the note.
STATEMENTS = [
    # Headers
    ("if x\n        return y", "E101", "", "expected ':' after the condition of 'if'", "end of the line"),
    ("if x return y", "E101", "return", "expected ':' after the condition of 'if', found 'return'", "before 'return'"),
    ("while True\n        pass", "E101", "", "expected ':' after the condition of 'while'", "end of the line"),
    ("for i in y\n        pass", "E101", "", "expected ':' after the sequence of 'for'", "end of the line"),
    ("def g(x)\n        return x", "E101", "", "expected ':' after the signature of 'def'", "end of the line"),
    ("def g() -> int\n        return x", "E101", "", "expected ':' after the signature of 'def'", "end of the line"),
    ("if x: pass\n    else\n        pass", "E101", "", "expected ':' after 'else'", "end of the line"),
    ("if x: pass\n    elif y\n        pass", "E101", "", "expected ':' after the condition of 'elif'", "end of"),
    ("if x:", "E101", "if x:", "expected an indented block after 'if'", "'pass' does nothing"),
    ("for i in x:\n    y = 1", "E101", "for i in x:", "expected an indented block after 'for'", "'pass'"),
    ("def g(): # nothing", "E101", "def g():", "expected an indented block after 'def'", "'pass'"),
    ("if x: pass\n    else if y:\n        pass", "E101", "else if", "'else if' is not a statement", "write 'elif'"),
    ("else:\n        pass", "E101", "else", "'else' without an 'if'", "right below the block"),
    ("elif x:\n        pass", "E101", "elif", "'elif' without an 'if'", "right below the block"),
    ("for i range(3):\n        pass", "E101", "range", "unexpected 'range' after 'i', expected 'in'", ""),
    ("def g:\n        pass", "E101", ":", "expected '(' after the function's name", "def g():"),
    ("def (x):\n        pass", "E101", "(", "expected a name after 'def', found '('", ""),
    ("def g(x, (a, b)):\n        pass", "E101", "(", "expected a name after ',', found '('", ""),
    ("while x {\n        y = 1\n    }", "E101", "{", "a block does not start with '{'", "write ':'"),
    # Misspellings and other languages
    ("retrun x", "E101", "retrun", "'retrun' does not start a statement", "did you mean 'return'?"),
    ("Return x", "E101", "Return", "does not start a statement", "did you mean 'return'?"),
    ("whlie x:\n        pass", "E101", "whlie", "does not start a statement", "did you mean 'while'?"),
    ("fi x:\n        pass\n    else:\n        pass", "E101", "fi", "does not start a statement", "did you mean 'if'?"),
    ("if x: pass\n    esle:\n        pass", "E101", "esle", "does not start a statement", "did you mean 'else'?"),
    ("fro i in x:\n        pass", "E101", "fro", "does not start a statement", "did you mean 'for'?"),
    ("elsif x:\n        pass", "E101", "elsif", "does not start a statement", "'elif'"),
    ("let y = 1", "E101", "let", "does not start a statement", "name = value"),
    ("print x", "E101", "print", "does not start a statement", "print(…)"),
    ("throw x", "E101", "throw", "does not start a statement", "'raise'"),
    ("y = x && z", "E101", "&&", "'&&' is not an operator", "'and'"),
    ("y = x || z", "E101", "||", "'||' is not an operator", "'or'"),
    ("y = !x", "E001", "!", "unexpected '!'", "'not'"),
    ("x++", "E101", "++", "'++' is not an operator", "x += 1"),
    ("x--;", "E101", "--", "'--' is not an operator", "x -= 1"),
    ("y = x <> z", "E101", "<>", "'<>' is not an operator", "'!='"),
    ("y = x === z", "E101", "===", "'===' is not an operator", "'=='"),
    ("y = x =< z", "E101", "=<", "'=<' is not an operator", "'<='"),
    ("y = x ? 1 : 2", "E001", "?", "unexpected '?'", "a if condition else b"),
    ("$x = 1", "E001", "$", "unexpected '$'", "names start with"),
    # Operators and operands
    ("if x = 3:\n        pass", "E101", "=", "'=' cannot stand in an expression", "'=='"),
    ("y = (x = 3)", "E101", "=", "'=' cannot stand in an expression", "'=='"),
    ("f(x.y=3)", "E101", "=", "'=' after an expression in a call", "plain name"),
    ("y = = 3", "E101", "=", "expected an expression after '=', found '='", ""),
    ("y = x +", "E101", "", "expected an expression after '+', found the end of the line", "finish the line"),
    ("y = x + * 3", "E101", "*", "expected an expression after '+', found '*'", ""),
    ("y = 5 6", "E101", "6", "unexpected '6' after '5'", "operator between the two"),
    ("x y", "E101", "y", "unexpected 'y' after 'x'", "operator between the two"),
    ("f(x y)", "E101", "y", "expected ',' or an operator before 'y'", "forget a comma"),
    ("y = [1 2]", "E101", "2", "expected ',' or an operator before '2'", "forget a comma"),
    ("f(x,, y)", "E101", ",", "expected an expression after ',', found ','", ""),
    ("y = x[]", "E101", "]", "expected an expression after '[', found ']'", ""),
    ("y = x.", "E101", "", "expected a name after '.', found the end of the line", ""),
    ("y = 1 if x", "E101", "", "expected 'else', found the end of the line", "both values"),
    ("y = x not z", "E101", "z", "unexpected 'z' after 'not', expected 'in'", ""),
    ("raise E, 'a'", "E101", ",", "unexpected ',' in 'raise'", "raise Name(message)"),
    ("x = return 1", "E101", "return", "expected an expression after '=', found 'return'", ""),
    ("x = y += 1", "E101", "+=", "unexpected '+=' after 'y'", ""),
    ("f(lambda=0.5)", "E101", "lambda", "'lambda' is a keyword and cannot be a name", "lambda_"),
    ("y = x.class", "E101", "class", "'class' is a keyword and cannot be a name", "class_"),
    ("def g(in):\n        pass", "E101", "in", "'in' is a keyword and cannot be a name", "in_"),
    ("y = x \\ z", "E101", "\\", "a line continuation ends its line", "spaces"),
    ("f(a=1, 2)", "E101", "2", "positional argument follows a keyword argument", "before 'a='"),
    ("f(a=1, a=2)", "E101", "a", "keyword argument 'a' is repeated", "remove one"),
    # Brackets, strings and characters
    ("y = (x", "E003", "(", "'(' was never closed", "add ')'"),
    ("y = f(x, [1, 2)", "E003", "[", "'[' was never closed", "add ']'"),
    ("y = x)", "E101", ")", "')' closes nothing", "remove it"),
    ("y = (x]", "E003", "]", "']' does not match '('", "closes with ')'"),
    ("y = 'abc", "E003", "'abc", "this string is never closed", "add ' at its end"),
    ("y = “abc”", "E001", "“", "U+201C LEFT DOUBLE QUOTATION MARK", 'write " instead'),
    ("y = x − z", "E001", "−", "U+2212 MINUS SIGN", "write - instead"),
    ("y\u00a0= 1", "E001", "\u00a0", "U+00A0 NO-BREAK SPACE", "plain space"),
    ("y = x\u200b", "E001", "\u200b", "U+200B ZERO WIDTH SPACE", "remove it"),
    ("y = x²", "E001", "²", "U+00B2 SUPERSCRIPT TWO", "** 2"),
    ("y = '\0'", "E001", "\0", "NUL character", "UTF-16"),
    ("y = 1 # \ud800", "E001", "\ud800", "lone surrogate U+D800", "UTF-8"),
    ("y = 1\n      z = 2", "E002", "z", "unexpected indentation", "ends with ':'"),
    ("if x:\n            y = 1\n        z = 2", "E002", "        ", "unindent does not match", "0, 4, 12"),
    ("if x:\n\ty = 1", "E002", "\t", "inconsistent use of tabs and spaces", "same characters"),
    # Literals
    ("y = 0123", "E005", "0123", "leading zeros", "write 123"),
    ("y = 1__0", "E005", "1__0", "invalid number '1__0'", "between two digits"),
    ("y = 12abc", "E005", "12abc", "invalid number '12abc'", "space or an operator"),
    ("y = 0b12", "E005", "0b12", "invalid number '0b12'", ""),
    ("y = 9223372036854775808", "E005", "9223372036854775808", "integer literal too large", "64 bits"),
    ("y = 0x1_0000_0000_0000_0000", "E005", "0x1_0000_0000_0000_0000", "integer literal too large", "64 bits"),
    (r"y = 'a\x1'", "E005", r"'a\x1'", r"the escape '\x' is cut short", "two hexadecimal digits"),
    (r"y = '\N{no such}'", "E005", r"'\N{no such}'", "no character is named 'no such'", ""),
    (r"y = '\U00110000'", "E005", r"'\U00110000'", "no character has the code", ""),
    # Targets
    ("del f()", "E103", "f()", "cannot delete the result of a call", "del l[0]"),
    ("del x, y.z", "E103", "y.z", "cannot delete an attribute", "del a, b"),
    ("f(x) = 3", "E103", "f(x)", "cannot assign to the result of a call", "assign to a name"),
    ("1 = x", "E103", "1", "cannot assign to a literal", "assign to a name"),
    ("None = 3", "E103", "None", "cannot assign to the constant None", ""),
    ("x + 1 = 2", "E103", "x + 1", "cannot assign to an expression", "'==' compares"),
    ("a, (b, f()) = x", "E103", "f()", "cannot assign to the result of a call", ""),
    ("pass = 3", "E103", "pass", "'pass' is a keyword and cannot be a name", "pass_"),
    ("lambda = 3", "E103", "lambda", "'lambda' is a keyword and cannot be a name", "lambda_"),
    ("a, b += 1", "E103", "a, b", "a tuple cannot be updated in place", "one statement for each"),
    ("x.y: int = 3", "E103", "x.y", "only a name can be annotated, not an attribute", ""),
    ("for f() in x:\n        pass", "E103", "f()", "cannot assign to the result of a call", ""),
    ("y = [i for 1 in x]", "E103", "1", "cannot assign to a literal", ""),
    # Places and duplicates
    ("break", "E104", "break", "'break' outside a loop", "'for' or a 'while'"),
    ("for i in x:\n        def g():\n            continue", "E104", "continue", "'continue' outside a loop", ""),
    ("def g(a, b, a):\n        pass", "E105", "a", "duplicate parameter 'a'", "rename"),
    ("def g():\n        pass\n    def g():\n        pass", "E105", "g", "function 'g' is defined twice", "on line 2"),
    ("def g(a=1, b):\n        pass", "E101", "b", "parameter 'b' without a default", "before 'a'"),
    ("def g(a, *):\n        pass", "E101", "*", "no parameter follows '*'", ""),
    ("def g(*, a, *, b):\n        pass", "E101", "*", "a second '*'", "remove it"),
]  # fmt: skip

UNSUPPORTED = [
    ("class A:\n        x = 1", "class", "classes are not supported", "write functions"),
    ("import os", "import", "this import is not supported", "remove it"),
    ("from torch import Tensor", "from", "this import is not supported", "inside a function"),
    ("with x as z:\n        y = 1", "as", "'as' is not supported", "torch.no_grad()"),
    ("try:\n        y = 1\n    except E as e:\n        y = 2", "try", "'try' is not supported", "'if' before"),
    ("try:\n        y = 1\n    finally:\n        y = 2", "try", "'try' is not supported", "'if' before"),
    ("except:\n        pass", "except", "'except' is not supported", ""),
    ("yield x", "yield", "generators are not supported", "return it"),
    ("y = yield", "yield", "generators are not supported", "return it"),
    ("async def g():\n        return 1", "async", "'async' is not supported", "without 'async'"),
    ("await x", "await", "'await' is not supported", "without 'await'"),
    ("global x", "global", "'global' is not supported", "parameter"),
    ("nonlocal x", "nonlocal", "'nonlocal' is not supported", "inner function"),
    ("match x:\n        case 1:\n            pass\n        case [a]:\n            pass", "match", "'match'", "'elif'"),
    ("@script\n    def g():\n        return 1", "@", "decorators are not supported", "remove it"),
    ("if (y := x):\n        pass", ":=", "assignment inside an expression", "statement of its own"),
    ("f(1, **x)", "**", "'**' arguments are not supported", "one by one"),
    ("y = x[*a]", "*", "starred expressions are not supported", "x[1:]"),
    ("def g(*args):\n        pass", "*args", "'*args' is not supported", "name every parameter"),
    ("def g(a, *, b, **kw):\n        pass", "**", "'**' parameters are not supported", "name every parameter"),
    ("def g(a, /, b):\n        pass", "/", "positional-only parameters are not supported", "remove it"),
    ("y = {1: 2}", "{", "dicts and sets are not supported", "a tuple or a list"),
    ("y = {1}", "{", "dicts and sets are not supported", "a tuple or a list"),
    ("y = {i for i in x}", "{", "dicts and sets are not supported", "a tuple or a list"),
    ("y = b'x'", "b'x'", "bytes literals are not supported", "plain string"),
    ("y = 1j", "1j", "complex numbers are not supported", ""),
    ("y = 1.5e3J", "1.5e3J", "complex numbers are not supported", ""),
    ("raise E from x", "from", "'raise … from' is not supported", "raise Name(message)"),
    ("x: int", "x: int", "a declaration without a value is not supported", "x: int = …"),
    ("[a, b] = x", "[a, b]", "a list as a target is not supported", "a, b = …"),
    ("y = ...", "...", "'...' can only stand in a subscript", "'pass'"),
]  # fmt: skip


def check_one(statement: str, code: str, spanned: str, message: str, note: str) -> None:
    text = f"def f(x):\n    {statement}\n    return x\n\ndef other(x):\n    return x\n"
    module, found = parse_text(text)
    assert len(found) == 1, "\n".join(map(str, found))
    (finding,) = found
    assert (finding.code, finding.span.text) == (code, spanned)
    assert message in finding.message
    assert note in " ".join(finding.notes)
    assert "other" in [function.name for function in module.functions]
    assert "f" not in [function.name for function in module.functions]


@pytest.mark.parametrize(("statement", "code", "spanned", "message", "note"), STATEMENTS)
def test_mistakes(statement: str, code: str, spanned: str, message: str, note: str) -> None:
    check_one(statement, code, spanned, message, note)


@pytest.mark.parametrize(("statement", "spanned", "message", "note"), UNSUPPORTED)
def test_unsupported_constructs(statement: str, spanned: str, message: str, note: str) -> None:
    check_one(statement, "E102", spanned, message, note)


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "message"),
    [
        ("x, y = 1, 2\n", "E104", 1, 1, "only functions and constants can stand outside a function"),
        ("print('hello')\n", "E104", 1, 1, "only functions and constants can stand outside a function"),
        ("def f(): pass\n'late'\n", "E104", 2, 1, "only functions and constants can stand outside a function"),
        ("def f(): pass\nreturn 3\n", "E104", 2, 1, "'return' outside a function"),
        ("def f(): pass\ndef f(): pass\n", "E105", 2, 5, "function 'f' is defined twice"),
        ("import numpy as np\n", "E102", 1, 1, "this import is not supported"),
        ("import torch as th\n", "E102", 1, 1, "this import is not supported"),
        ("from typing import List as L\n", "E102", 1, 1, "this import is not supported"),
        ("@cached\ndef f(): pass\n", "E102", 1, 1, "decorators are not supported"),
        ("def f(x:\n    return x\n", "E003", 1, 6, "'(' was never closed"),
        ("def f():\n    '''abc\n    return\n", "E003", 2, 5, "this string is never closed"),
        ("def f():\n    pass\\\n", "E101", 2, 9, "nothing follows this line continuation"),
        ("def f():\n", "E101", 1, 1, "expected an indented block after 'def'"),
        ("    def f():\n        pass\n  def g(): pass\n", "E002", 3, 1, "unindent does not match"),
        ("def f():\n\tif x:\n        pass\n", "E002", 3, 1, "inconsistent use of tabs and spaces"),
        (")\n", "E101", 1, 1, "')' closes nothing"),
        ("def f(): pass }\n", "E101", 1, 15, "'}' closes nothing"),
    ],
)
def test_mistakes_of_a_file(text: str, code: str, line: int, column: int, message: str) -> None:
    _, found = parse_text(text)
    assert [(f.code, f.span.line, f.span.column) for f in found] == [(code, line, column)]
    assert message in found[0].message


def test_messages_never_show_names_of_the_grammar() -> None:
    cases = [case[0] for case in STATEMENTS] + [case[0] for case in UNSUPPORTED]
    for statement in cases:
        _, found = parse_text(f"def f(x):\n    {statement}\n")
        shown = "\n".join(str(finding) for finding in found)
        for name in ("NEWLINE", "INDENT", "DEDENT", "NUMBER", "STRING", "$END", "ERROR", "__ANON", "'NAME'"):
            assert name not in shown, shown
