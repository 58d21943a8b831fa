"""The answers to requests that can't be answered: JSON with the one key `error`."""

from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web

from actors.http.answer_memory import NoRoomForAnswer
from actors.http.changes.journal_tap import NothingSealed
from actors.http.changes.readers import TooManyReaders
from actors.http.connections import ClientLeft
from pipeline.errors import Definite, Transient
from pipeline.journal.changes.bootstrap import LakeBehind, LakeWithout
from pipeline.journal.changes.key_filter import WrongKeyFilter
from pipeline.journal.changes.place import PlaceGone, UnknownTables, UnreachedPlace
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.kafka.databus.sources import UnknownSource

log = structlog.get_logger()


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def refusing(handler: Handler) -> Handler:
    """Answers with what is wrong where a request for the journal's changes can't be answered."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except (Definite, Transient) as error:
            return changes_refusal(error)

    return handle


def error_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Returns an answer with this error."""
    return web.json_response({"error": text}, status=status, headers=headers)


def changes_refusal(error: Definite | Transient) -> web.Response:
    """Returns the answer to a request for the journal's changes that ends with this error."""
    match error:
        case MalformedRequest() | WrongKeyFilter():
            return error_answer(400, str(error))
        case UnknownTables() | UnknownSource():
            return error_answer(404, str(error))
        case UnreachedPlace() | LakeWithout():
            return error_answer(409, str(error))
        case PlaceGone():
            return error_answer(410, str(error))
        case TooManyReaders() | NoRoomForAnswer():
            return error_answer(429, str(error), {"Retry-After": "5"})
        case ClientLeft():
            return error_answer(503, str(error))
        case NothingSealed() | LakeBehind():
            return error_answer(503, str(error), {"Retry-After": "5"})
        case _:
            return error_answer(503, unread_journal(error), {"Retry-After": "5"})


def unread_journal(error: Exception) -> str:
    """Returns what a client learns of an error of the journal, and logs the rest."""
    log.warning("changes can't be read", error=str(error))
    return "the journal can't be read; the service's log has the story"
