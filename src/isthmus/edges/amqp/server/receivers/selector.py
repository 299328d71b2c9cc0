"""Message selectors of JMS: which messages a receiver wants.

In: the text of a selector. Out: a function of a message, or `SelectorError`. The logic is SQL's, of three
values: a property that is not there, or has a type that the operator does not take, is neither true nor
false, and a message is wanted only if the whole selector is true.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.exceptions import VisitError

from isthmus.codecs.amqp import AmqpMessage
from isthmus.edges.amqp.server.receivers.selected import Value, value_of
from isthmus.errors import SelectorError

MAX_LENGTH: Final = 10_000
MAX_DEPTH: Final = 50
"""How deep parentheses may nest: far beyond any real selector, far below any stack."""

Expression = Callable[[AmqpMessage], Value]
"""None is SQL's unknown."""

_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Selector:
    """A parsed selector."""

    def __init__(self, text: str) -> None:
        self._expression = _parse(text)
        self.text = text

    @property
    def digest(self) -> str:
        """Tells selectors apart in the names of groups: the same for the same text."""
        return hashlib.sha256(self.text.encode(errors="replace")).hexdigest()[:16]

    def wants(self, message: AmqpMessage) -> bool:
        """Whether the selector is true for a message."""
        return self._expression(message) is True


def _parse(text: str) -> Expression:
    depth = deepest = 0
    for character in re.sub(r"'[^']*'", "", text):
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    if len(text) > MAX_LENGTH or deepest > MAX_DEPTH:
        raise SelectorError("the selector is too long, or nested too deeply")
    try:
        tree = _grammar().parse(text)
        expression: Expression = _Meaning().transform(tree)
    except UnexpectedInput as error:
        raise SelectorError(f"the selector cannot be read at column {error.column}: {text!r:.200}") from None
    except VisitError as error:
        raise SelectorError(str(error.orig_exc)) from None
    except RecursionError:
        raise SelectorError("the selector is too long, or nested too deeply") from None
    return expression


@cache
def _grammar() -> Lark:
    text = resources.files(__package__).joinpath("selector.lark").read_text()
    return Lark(text, parser="lalr", maybe_placeholders=False)


@v_args(inline=True)
class _Meaning(Transformer[Token, Expression]):
    """Makes a function of every node."""

    def any(self, *terms: Expression) -> Expression:
        return lambda message: _any([_truth(term(message)) for term in terms])

    def all(self, *terms: Expression) -> Expression:
        return lambda message: _not(_any([_not(_truth(term(message))) for term in terms]))

    def negation(self, term: Expression) -> Expression:
        return lambda message: _not(_truth(term(message)))

    def compare(self, left: Expression, sign: Token, right: Expression) -> Expression:
        return lambda message: _compare(left(message), str(sign), right(message))

    def between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        def between(message: AmqpMessage) -> bool | None:
            inner = value(message)
            below, above = _compare(inner, "<", low(message)), _compare(inner, ">", high(message))
            return _not(_any([below, above]))

        return between

    def not_between(self, value: Expression, low: Expression, high: Expression) -> Expression:
        return self.negation(self.between(value, low, high))

    def one_of(self, value: Expression, *options: Expression) -> Expression:
        def one_of(message: AmqpMessage) -> bool | None:
            inner = value(message)
            return None if not isinstance(inner, str) else any(inner == each(message) for each in options)

        return one_of

    def none_of(self, value: Expression, *options: Expression) -> Expression:
        return self.negation(self.one_of(value, *options))

    def like(self, value: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
        nothing = AmqpMessage()
        regex = _like(str(pattern(nothing)), "" if escape is None else str(escape(nothing)))

        def like(message: AmqpMessage) -> bool | None:
            inner = value(message)
            return None if not isinstance(inner, str) else regex.fullmatch(inner) is not None

        return like

    def not_like(self, *arguments: Expression) -> Expression:
        return self.negation(self.like(*arguments))

    def is_null(self, value: Expression) -> Expression:
        return lambda message: value(message) is None

    def is_not_null(self, value: Expression) -> Expression:
        return lambda message: value(message) is not None

    def add(self, left: Expression, right: Expression) -> Expression:
        return _arithmetic(operator.add, left, right)

    def subtract(self, left: Expression, right: Expression) -> Expression:
        return _arithmetic(operator.sub, left, right)

    def multiply(self, left: Expression, right: Expression) -> Expression:
        return _arithmetic(operator.mul, left, right)

    def divide(self, left: Expression, right: Expression) -> Expression:
        return _arithmetic(_divide, left, right)

    def minus(self, value: Expression) -> Expression:
        return _arithmetic(operator.sub, lambda _: 0, value)

    def identifier(self, name: Token) -> Expression:
        return lambda message: value_of(str(name), message)

    def string(self, token: Token) -> Expression:
        text = token[1:-1].replace("''", "'")
        return lambda _: text

    def integer(self, token: Token) -> Expression:
        number = int(token.rstrip("lL"), 16 if token[:2].lower() == "0x" else 10)
        return lambda _: number

    def decimal(self, token: Token) -> Expression:
        number = float(token.rstrip("dDfF"))
        return lambda _: number

    def true(self) -> Expression:
        return lambda _: True

    def false(self) -> Expression:
        return lambda _: False


def _truth(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _compare(left: Value, sign: str, right: Value) -> bool | None:
    """Numbers compare with numbers; texts and truth values are equal or not, and nothing else."""
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        return _ORDERS[sign](left, right)
    if type(left) is not type(right) or sign not in ("=", "<>"):
        return None
    return _ORDERS[sign](left, right)


def _arithmetic(
    operation: Callable[[Any, Any], int | float | None], left: Expression, right: Expression
) -> Expression:
    def compute(message: AmqpMessage) -> Value:
        one, other = left(message), right(message)
        if not _is_number(one) or not _is_number(other):
            return None
        try:
            return operation(one, other)
        except OverflowError:
            return None

    return compute


def _divide(left: float, right: float) -> int | float | None:
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)  # as Java does: towards zero
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


def _like(pattern: str, escape: str) -> re.Pattern[str]:
    if len(escape) > 1:
        raise SelectorError("the escape character of LIKE must be one character")
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)
