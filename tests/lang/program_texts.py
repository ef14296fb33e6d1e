"""Random programs, as text: most of them valid, some not, all of constructs that the language has."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = st.sampled_from(["x", "y", "z", "weight", "grad_output", "_a1", "torch"])
NUMBERS = st.sampled_from(
    ["0", "1", "42", "0x1F", "0b101", "0o17", "1_000", "0.5", ".5", "3.", "1e-5", "1.5E+3", "00", "1_0.0_1", "0xe+1"]
)
STRINGS = st.sampled_from(
    [
        '"a"',
        "'b'",
        "'it''s'",
        '"""long"""',
        "'''two\nlines'''",
        r"'\n\x41\u00e9\101\q'",
        r'r"\n"',
        "''",
        '"a" "b"',
        'u"x"',
    ]
)
OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=",
     "is", "is not", "in", "not in", "and", "or"]
)  # fmt: skip
ATOMS = st.one_of(NAMES, NAMES, NUMBERS, STRINGS, st.sampled_from(["True", "False", "None", "()", "[]"]))
SPACES = st.sampled_from([" ", " ", "  ", " \\\n  "])
UPDATES = st.sampled_from(["+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "^=", "<<=", ">>="])


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger expressions from smaller ones. Parentheses are added at random, so that precedence decides the rest."""
    several = st.lists(inner, min_size=1, max_size=3).map(", ".join)
    comma = st.sampled_from(["", ","])
    index = st.one_of(
        inner,
        st.sampled_from(["...", ":", "::", "::-1", "1:", ":-1", "..., None", "1:2, :", "0,"]),
        st.tuples(inner, inner, inner).map("{0[0]}:{0[1]}:{0[2]}".format),
    )
    return st.one_of(
        st.tuples(inner, SPACES, OPERATORS, inner).map("{0[0]}{0[1]}{0[2]} {0[3]}".format),
        st.tuples(st.sampled_from(["-", "+", "~", "not ", "- -"]), inner).map("".join),
        st.tuples(inner, inner, inner).map("{0[0]} if {0[1]} else {0[2]}".format),
        inner.map("({})".format),
        inner.map("(\n  {} # note\n)".format),
        st.tuples(several, comma).map("[{0[0]}{0[1]}]".format),
        st.tuples(several, comma).map("({0[0]}{0[1]})".format),
        st.tuples(inner, several, comma).map("({0[0]})({0[1]}{0[2]})".format),
        st.tuples(NAMES, several, NAMES, inner, comma).map("{0[0]}({0[1]}, {0[2]}={0[3]}{0[4]})".format),
        st.tuples(inner, NAMES).map("({0[0]}).{0[1]}".format),
        st.tuples(NAMES, index).map("{0[0]}[{0[1]}]".format),
        st.tuples(inner, NAMES, inner).map("[{0[0]} for {0[1]} in {0[2]}]".format),
        st.tuples(inner, NAMES, NAMES, inner, inner).map("[{0[0]} for {0[1]}, {0[2]} in {0[3]} if {0[4]}]".format),
        st.tuples(inner, NAMES, inner, NAMES).map("f({0[0]} for {0[1]} in {0[2]} for {0[3]} in {0[1]})".format),
    )


def _named(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The same, with a short repr: Hypothesis would otherwise write out every part wherever it is used."""
    return st.deferred(lambda: strategy)


EXPRESSIONS = _named(st.recursive(ATOMS, _grow, max_leaves=12))
VALUES = _named(EXPRESSIONS | st.lists(EXPRESSIONS, min_size=1, max_size=3).map(lambda parts: ", ".join(parts) + ","))
TARGETS = _named(
    st.one_of(
        NAMES,
        st.lists(NAMES, min_size=1, max_size=3).map(lambda names: ", ".join(names) + ","),
        st.tuples(NAMES, EXPRESSIONS).map("{0[0]}[{0[1]}]".format),
        st.tuples(NAMES, NAMES).map("({0[0]}, ({0[1]},))".format),
        st.tuples(NAMES, NAMES).map("{0[0]}.{0[1]}".format),
    )
)
SIMPLE = _named(
    st.one_of(
        st.tuples(st.lists(TARGETS, min_size=1, max_size=2).map(" = ".join), VALUES).map(" = ".join),
        st.tuples(NAMES, EXPRESSIONS, VALUES).map("{0[0]}: {0[1]} = {0[2]}".format),
        st.tuples(NAMES, UPDATES, VALUES).map(" ".join),
        VALUES,
        VALUES.map("return {}".format),
        st.just("return"),
        st.just("pass"),
        st.just("del x, y[0]"),
        EXPRESSIONS.map("assert {}".format),
        st.tuples(EXPRESSIONS, EXPRESSIONS).map("assert {0[0]}, {0[1]}".format),
        EXPRESSIONS.map("raise ValueError({})".format),
    )
)
LINES = _named(SIMPLE | st.lists(SIMPLE, min_size=2, max_size=3).map("; ".join) | SIMPLE.map("{};".format))

PARAMETERS = _named(
    st.lists(
        st.tuples(
            NAMES,
            st.one_of(st.just(""), EXPRESSIONS.map(": {}".format)),
            st.one_of(st.just(""), EXPRESSIONS.map("={}".format)),
        ).map("".join)
        | st.just("*"),
        max_size=4,
    ).map(", ".join)
)


def _block(text: str) -> str:
    return "\n" + "\n".join("    " + line for line in text.split("\n"))


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("\n".join).map(_block),
        SIMPLE.map(" {}".format),
        inner.map("# first\n\n{}\n  # last".format).map(_block),
    )
    return st.one_of(
        st.tuples(EXPRESSIONS, body).map("if {0[0]}:{0[1]}".format),
        st.tuples(EXPRESSIONS, body, body).map("if {0[0]}:{0[1]}\nelse:{0[2]}".format),
        st.tuples(EXPRESSIONS, body, EXPRESSIONS, body).map("if {0[0]}:{0[1]}\nelif {0[2]}:{0[3]}".format),
        st.tuples(EXPRESSIONS, body).map("while {0[0]}:{0[1]}".format),
        st.tuples(TARGETS, VALUES, body).map("for {0[0]} in {0[1]}:{0[2]}".format),
        st.tuples(NAMES, PARAMETERS, body).map("def {0[0]}({0[1]}):{0[2]}".format),
        st.tuples(NAMES, EXPRESSIONS, body).map("def {0[0]}() -> {0[1]}:{0[2]}".format),
    )


STATEMENTS = _named(st.recursive(LINES, _blocks, max_leaves=6))
BODIES = st.lists(STATEMENTS, min_size=1, max_size=4).map("\n".join)


def _indent(text: str) -> str:
    # Lines of a triple-quoted string and continued lines move too: that changes values, not validity.
    return "\n".join("    " + line for line in text.split("\n"))


PROGRAMS = st.lists(BODIES, min_size=1, max_size=2).map(
    lambda bodies: "".join(f"def f{i}(a, b):\n{_indent(body)}\n" for i, body in enumerate(bodies))
)
