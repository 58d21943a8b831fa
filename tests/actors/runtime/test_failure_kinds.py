"""Of what kind a failure is."""

import pytest

from actors.runtime.failure_kinds import FailureKind, Hung, kind_of
from actors.runtime.mailbox import Closed
from actors.runtime.redaction import ActorError
from actors.source.errors import AccessDenied
from pipeline.errors import Definite, InvariantBroken, Transient


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Transient("the source was lost"), FailureKind.TRANSIENT),
        (AccessDenied("a password is being changed"), FailureKind.TRANSIENT),
        (ConnectionResetError(104, "Connection reset by peer"), FailureKind.TRANSIENT),
        (TimeoutError(), FailureKind.TRANSIENT),
        (Definite("the log is purged"), FailureKind.DEFINITE),
        (InvariantBroken("a position fell"), FailureKind.INVARIANT),
        (Hung("for more than 12 s"), FailureKind.HANG),
        (ActorError("it was cancelled"), FailureKind.UNFORESEEN),
        (Closed(), FailureKind.UNFORESEEN),
        (ExceptionGroup("both", [Transient()]), FailureKind.UNFORESEEN),
        (KeyError("odd"), FailureKind.UNFORESEEN),
    ],
    ids=repr,
)
def test_each_error_is_of_one_kind(error: Exception, kind: FailureKind) -> None:
    assert kind_of(error) is kind
