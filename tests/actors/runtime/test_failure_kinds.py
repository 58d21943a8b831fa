"""Of what kind a failure is."""

import pytest

from actors.runtime.failure_kinds import Hung, Kind, kind_of
from actors.runtime.mailbox import Closed
from actors.runtime.redaction import Plain
from actors.source.errors import AccessDenied
from pipeline.errors import Definite, InvariantBroken, Transient


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Transient("the source was lost"), Kind.TRANSIENT),
        (AccessDenied("a password is being changed"), Kind.TRANSIENT),
        (ConnectionResetError(104, "Connection reset by peer"), Kind.TRANSIENT),
        (TimeoutError(), Kind.TRANSIENT),
        (Definite("the log is purged"), Kind.DEFINITE),
        (InvariantBroken("a position fell"), Kind.INVARIANT),
        (Hung("for more than 12 s"), Kind.HANG),
        (Plain("it was cancelled"), Kind.UNFORESEEN),
        (Closed(), Kind.UNFORESEEN),
        (ExceptionGroup("both", [Transient()]), Kind.UNFORESEEN),
        (KeyError("odd"), Kind.UNFORESEEN),
    ],
    ids=repr,
)
def test_each_error_is_of_one_kind(error: Exception, kind: Kind) -> None:
    assert kind_of(error) is kind
