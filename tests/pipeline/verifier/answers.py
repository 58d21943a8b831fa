"""The verifier's machine without its questions, for tests that look only at what the coordinator is told."""

from collections.abc import Iterable
from typing import Any

from pipeline.verifier import step as machine
from pipeline.verifier.state import State
from pipeline.verifier.step import AskServer, Fact, FromVerifier, Order


def told(orders: Iterable[Order]) -> tuple[FromVerifier, ...]:
    """What the coordinator is told."""
    return tuple(order for order in orders if not isinstance(order, AskServer))


def step(state: State, fact: Fact) -> tuple[State, tuple[FromVerifier, ...]]:
    """The state after a fact, and what the coordinator is told."""
    state, orders = machine.step(state, fact)
    return state, told(orders)


def start(*known: Any) -> tuple[State, tuple[FromVerifier, ...]]:
    """The state at a start, and what the coordinator is told."""
    state, orders = machine.start(*known)
    return state, told(orders)
