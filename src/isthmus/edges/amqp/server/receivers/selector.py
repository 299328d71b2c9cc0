"""Message selectors of JMS: which messages a receiver wants.

In: the text of a selector. Out: a function of a message, or `SelectorError`. The logic is SQL's, of three
values: a property that is not there, or has a type that the operator does not take, is neither true nor
false, and a message is wanted only if the whole selector is true.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from functools import cache
from importlib import resources
from math import fmod, isinf
from typing import Any, Final

from lark import Lark, Token, Transformer, Tree, UnexpectedInput, v_args
from lark.exceptions import VisitError

from isthmus import grammars
from isthmus.codecs.amqp import AmqpMessage
from isthmus.edges.amqp.server.receivers.like import Like
from isthmus.edges.amqp.server.receivers.selected import Value, value_of
from isthmus.errors import SelectorError

MAX_LENGTH: Final = 4096
"""How many characters a selector may have: to read more would take too much of the loop's time."""
MAX_LONG: Final = 2**63
MAX_DEPTH: Final = 100
"""How deep a selector may nest: far beyond any real one, far below any stack."""
MAX_LIKE_STEPS: Final = 64
"""How many steps they may take together for each character of a text: a millisecond for the longest text."""
MAX_LIKE: Final = 1000
"""How many characters the patterns of all LIKEs of a selector may have: each may be tried at every character
of a text."""

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
    if len(text) > MAX_LENGTH:
        raise SelectorError(f"the selector has {len(text)} characters; {MAX_LENGTH} are the most")
    try:
        tree = _grammar().parse(text)
        if _depth(tree) > MAX_DEPTH:
            raise SelectorError(f"the selector is nested more than {MAX_DEPTH} deep")
        expression: Expression = _Meaning().transform(tree)
    except UnexpectedInput as error:
        raise SelectorError(f"the selector cannot be read at column {error.column}: {text!r:.200}") from None
    except VisitError as error:
        raise SelectorError(str(error.orig_exc)) from None
    return expression


def _depth(tree: Tree[Token]) -> int:
    """How deep a tree is, found without a stack of its depth."""
    depth, level = 0, [tree]
    while level:
        level = [child for each in level for child in each.children if isinstance(child, Tree)]
        depth += 1
    return depth


@cache
def _grammar() -> Lark:
    text = resources.files(__package__).joinpath("selector.lark").read_text()
    return grammars.parser("selector", text, maybe_placeholders=False)


@v_args(inline=True)
class _Meaning(Transformer[Token, Expression]):
    """Makes a function of every node."""

    def __init__(self) -> None:
        super().__init__()
        self._like_length = 0
        self._like_steps = 0

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
        text = str(pattern(nothing))
        self._like_length += len(text)
        if self._like_length > MAX_LIKE:
            raise SelectorError(f"the patterns of LIKE have more than {MAX_LIKE} characters")
        pattern_of = Like(text, "" if escape is None else str(escape(nothing)))
        self._like_steps += pattern_of.steps
        if self._like_steps > MAX_LIKE_STEPS:
            raise SelectorError(f"LIKE has parts with _ between % of more than {MAX_LIKE_STEPS} characters")
        matches = pattern_of.matches

        def like(message: AmqpMessage) -> bool | None:
            inner = value(message)
            return None if not isinstance(inner, str) else matches(inner)

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

    def remainder(self, left: Expression, right: Expression) -> Expression:
        return _arithmetic(_remainder, left, right)

    def minus(self, value: Expression) -> Expression:
        return _arithmetic(operator.sub, lambda _: 0, value)

    def identifier(self, name: Token) -> Expression:
        return lambda message: value_of(str(name), message)

    def string(self, token: Token) -> Expression:
        text = token[1:-1].replace("''", "'")
        return lambda _: text

    def integer(self, token: Token) -> Expression:
        number = _integer(token.rstrip("lL").replace("_", "").lower())
        return lambda _: number

    def decimal(self, token: Token) -> Expression:
        number = float(token.rstrip("dDfF").replace("_", ""))
        return lambda _: number

    def hexadecimal(self, token: Token) -> Expression:
        number = _hexadecimal(token)
        return lambda _: number

    def true(self) -> Expression:
        return lambda _: True

    def false(self) -> Expression:
        return lambda _: False


def _integer(text: str) -> int:
    """A literal of Java's: a leading zero makes it octal."""
    base = {"0x": 16, "0b": 2}.get(text[:2], 8 if len(text) > 1 and text[0] == "0" else 10)
    try:
        number = int(text, base)
    except ValueError:
        raise SelectorError(f"{text:.50} is no octal number") from None
    if number > MAX_LONG:  # one more than the largest, for the sake of the smallest behind a minus
        raise SelectorError(f"{text:.50} is too large a number")
    return number


def _hexadecimal(token: str) -> float:
    try:
        return float.fromhex(token[:-1] if token[-1] in "dDfF" else token)
    except OverflowError:
        raise SelectorError(f"{token:.50} is too large a number") from None


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


def _remainder(left: float, right: float) -> int | float | None:
    """What a division leaves, with the sign of what is divided, as in Java."""
    if right == 0 or isinf(left):
        return None
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return rest if left >= 0 else -rest
    return fmod(left, right)
