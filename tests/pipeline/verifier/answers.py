"""The verifier's machine without its queries, for tests of only its messages on rows and schemas."""

from collections.abc import Iterable
from typing import Any

from pipeline.messages.changes import EnginesSurveyed, ForeignKeysFollowed
from pipeline.verifier import step as machine
from pipeline.verifier.state import FromVerifier, State
from pipeline.verifier.step import AskServer, Fact, Order


def told(orders: Iterable[Order]) -> tuple[FromVerifier, ...]:
    """Returns the messages to the coordinator, but for what's known of engines (`test_handle_answers.py`).

    Nor does it have what's known of foreign keys (`test_state.py`).
    """
    known = AskServer | EnginesSurveyed | ForeignKeysFollowed
    return tuple(order for order in orders if not isinstance(order, known))


def step(state: State, fact: Fact) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state after a fact, and the messages to the coordinator."""
    state, orders = machine.step(state, fact)
    return state, told(orders)


def start(*known: Any, **more: Any) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state at a start, and the messages to the coordinator."""
    state, orders = machine.start(*known, **more)
    return state, told(orders)
