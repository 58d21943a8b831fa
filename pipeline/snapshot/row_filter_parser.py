"""The text of conditions: how it's parsed into the tree of `pipeline.snapshot.row_filter`.

Sources: MySQL 9.7 Reference Manual, "Operator Precedence", "String Literals", "Numeric Literals", "Hexadecimal
Literals", "Date and Time Literals", "Schema Object Names".
"""

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Final, NamedTuple

from pipeline.snapshot import row_filter

# A condition is typed by hand or made from a list of values; its depth is that of parentheses and NOTs. It's in every
# checkpoint while its snapshot is remembered, so that it can't be very long.
LONGEST_FILTER: Final = 8 * 1024
DEEPEST: Final = 50
MOST_LITERALS: Final = 1000

ALLOWED: Final = (
    "allowed are a column compared with a literal, [NOT] IN, BETWEEN and LIKE, IS [NOT] NULL, AND, OR, NOT and "
    "parentheses"
)
# A name that isn't quoted doesn't begin with a digit; MySQL's white space is ASCII's.
_TOKEN: Final = re.compile(
    r"""[ \t\n\r\v\f]*(?:
          (?P<number> (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)? ) (?![0-9A-Za-z_$\x80-\U0010ffff])
        | [xX]'(?P<hex> (?:[0-9a-fA-F]{2})* )'
        | (?P<word> [A-Za-z_\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]* )
        | `(?P<name> (?:[^`]|``)+ )`
        | '(?P<text> (?:[^'\\]|\\.|'')* )'
        | (?P<sign> <=>|<>|!=|<=|>=|[=<>(),+-] )
        | (?P<end> \Z )
    )""",
    re.VERBOSE | re.DOTALL,
)
_SELECT: Final = re.compile(r"\s*SELECT\s", re.IGNORECASE)
_RESERVED: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"}
)
_CODED: Final = re.compile(r"\\(.)|''", re.DOTALL)
# The backslash of an escaped wildcard stays, because the reader of the pattern needs it.
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def parse_filter(text: str) -> row_filter.Condition:
    """The condition that the text is. Raises InvalidRowFilter."""
    if len(text) > LONGEST_FILTER:
        raise row_filter.InvalidRowFilter(
            f"it's longer than {LONGEST_FILTER} characters; ask for fewer rows at once, with a signal for each part"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise row_filter.InvalidRowFilter("it holds half a surrogate pair, which is no text")
    if _SELECT.match(text):
        raise row_filter.InvalidRowFilter("it's a whole SELECT; give only what would come after its WHERE")
    parser = _Parser(text)
    condition = parser.disjunction(0)
    parser.end()
    return condition


class _Token(NamedTuple):
    """`kind` is a group of _TOKEN; `text` is a sign or word as it's written, or what is within the quotes."""

    kind: str
    text: str
    at: int
    end: int

    @property
    def keyword(self) -> str:
        return self.text.upper() if self.kind == "word" and self.text.upper() in _RESERVED else ""


class _Parser:
    """Takes one token after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._literals = 0
        self._next = self._read(0)

    def disjunction(self, depth: int) -> row_filter.Condition:
        """Parts with OR between them."""
        parts = [self._conjunction(depth)]
        while self._accept("OR"):
            parts.append(self._conjunction(depth))
        return row_filter.Or(tuple(parts)) if len(parts) > 1 else parts[0]

    def end(self) -> None:
        """Raises InvalidRowFilter if there's more."""
        if self._next.kind != "end":
            raise self._expected("AND, OR or the end")

    def _conjunction(self, depth: int) -> row_filter.Condition:
        parts = [self._part(depth)]
        while self._accept("AND"):
            parts.append(self._part(depth))
        return row_filter.And(tuple(parts)) if len(parts) > 1 else parts[0]

    def _part(self, depth: int) -> row_filter.Condition:
        if depth > DEEPEST:
            raise self._refusal(f"it's deeper than {DEEPEST} parentheses and NOTs")
        if self._accept("NOT"):
            return row_filter.Not(self._part(depth + 1))
        if self._accept("("):
            inner = self.disjunction(depth + 1)
            self._expect(")")
            return inner
        return self._predicate(self._column())

    def _predicate(self, column: str) -> row_filter.Condition:
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._expect("NULL")
            return row_filter.IsNull(column, negated)
        if self._next.kind == "sign" and self._next.text in {"!=", *row_filter.Operator}:
            sign = self._take().text
            return row_filter.Compare(
                column,
                row_filter.Operator.UNEQUAL if sign == "!=" else row_filter.Operator(sign),
                self._literal(),
            )
        negated = self._accept("NOT")
        if self._accept("IN"):
            return row_filter.In(column, self._list(), negated)
        if self._accept("BETWEEN"):
            low = self._literal()
            self._expect("AND")
            return row_filter.Between(column, low, self._literal(), negated)
        if self._accept("LIKE"):
            pattern = self._string()
            escape = self._string() if self._accept("ESCAPE") else "\\"
            if len(escape) > 1:
                raise self._refusal("ESCAPE takes one character, or none")
            return row_filter.Like(column, pattern, escape, negated)
        raise self._expected("a comparison, IN, BETWEEN, LIKE or IS")

    def _column(self) -> str:
        if self._next.kind == "word" and not self._next.keyword:
            return self._take().text
        if self._next.kind == "name":
            return self._take().text.replace("``", "`")
        raise self._expected("a column")

    def _list(self) -> tuple[row_filter.Literal, ...]:
        self._expect("(")
        values = [self._literal()]
        while self._accept(","):
            values.append(self._literal())
        self._expect(")")
        return tuple(values)

    def _literal(self) -> row_filter.Literal:
        self._literals += 1
        if self._literals > MOST_LITERALS:
            raise self._refusal(f"it has more than {MOST_LITERALS} literals")
        for keyword, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
            if self._accept(keyword):
                return value
        match self._next:
            case _Token("number"):
                return self._number("")
            case _Token("sign", ("+" | "-") as sign):
                self._take()
                return self._number(sign)
            case _Token("text"):
                return self._string()
            case _Token("hex", digits):
                self._take()
                return bytes.fromhex(digits)
            case _Token("word", word) if word.upper() in {"DATE", "TIMESTAMP"}:
                return self._temporal(word.upper())
            case _:
                raise self._expected("a literal (columns are compared with literals only)")

    def _number(self, sign: str) -> row_filter.Literal:
        if self._next.kind != "number":
            raise self._expected("a number")
        at = self._take()
        digits = at.text
        if "e" in digits.lower():
            value = float(sign + digits)
            if value in (float("inf"), float("-inf")):
                raise self._refusal("the number is out of a DOUBLE's range", at)
            return value
        whole, point, fraction = digits.partition(".")
        if len(whole.lstrip("0")) + len(fraction) > 65 or len(fraction) > 30:
            raise self._refusal("the number has more digits than a DECIMAL(65, 30)", at)
        return Decimal(sign + digits) if point else int(sign + digits)

    def _string(self) -> str:
        if self._next.kind != "text":
            raise self._expected("text in single quotes")
        return _CODED.sub(lambda code: _ESCAPES.get(code[1] or "'", code[1] or "'"), self._take().text)

    def _temporal(self, kind: str) -> date:
        at = self._take()
        text = self._string()
        value = row_filter.parse_moment(text)
        if value is None or isinstance(value, datetime) != (kind == "TIMESTAMP"):
            raise self._refusal(f"{text!r} isn't a {kind}", at)
        return value

    def _accept(self, what: str) -> bool:
        found = self._next.keyword == what or (self._next.kind, self._next.text) == ("sign", what)
        if found:
            self._take()
        return found

    def _expect(self, what: str) -> None:
        if not self._accept(what):
            raise self._expected(what)

    def _take(self) -> _Token:
        taken = self._next
        self._next = self._read(taken.end)
        return taken

    def _read(self, at: int) -> _Token:
        match = _TOKEN.match(self._text, at)
        if match is None:
            space = len(self._text) - len(self._text[at:].lstrip(" \t\n\r\v\f"))
            raise self._refusal("this can't be read", _Token("", "", space, space))
        kind = str(match.lastgroup)
        return _Token(kind, match[kind], match.start(kind), match.end())

    def _expected(self, wanted: str) -> row_filter.InvalidRowFilter:
        return self._refusal(f"expected {wanted}")

    def _refusal(self, why: str, token: _Token | None = None) -> row_filter.InvalidRowFilter:
        place = (token or self._next).at
        found = self._text[place : place + 20]
        here = f"at character {place + 1} ({found!r})" if found else "at its end"
        return row_filter.InvalidRowFilter(f"{why} {here}; {ALLOWED}")
