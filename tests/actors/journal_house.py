"""A JournalWriter that runs, with the mailboxes around it."""

import asyncio
from typing import Any

from actors.journal.store import JournalStore
from actors.journal_writer import JournalWriter, JournalWriterPorts
from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from pipeline.config.column_protection import UNPROTECTED
from pipeline.config.settings import JournalSettings
from pipeline.journal.applied.progress import JournalProgress
from pipeline.messages.inboxes import ToJournalWriter
from pipeline.messages.topology import EDGES, ActorName, inbox

(APPENDS,) = inbox(ActorName.JOURNAL_WRITER)


class House:
    """A writer that runs, with the mailboxes around it."""

    def __init__(self, store: JournalStore, settings: JournalSettings) -> None:
        self.mailbox: Mailbox[ToJournalWriter] = Mailbox(inbox(ActorName.JOURNAL_WRITER))
        self.listener: Mailbox[Any] = Mailbox(inbox(ActorName.SIGNAL_LISTENER))
        self.sink: Mailbox[Any] = Mailbox(inbox(ActorName.SPARK_SINK))
        self.metrics = Metrics()
        self.coordinator: Mailbox[Any] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        self.chunks: Mailbox[Any] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        self.applied: list[JournalProgress] = []
        room, chunks, answers, checkpoints, to_sink, _ = (
            edge for edge in EDGES if edge.sender is ActorName.JOURNAL_WRITER
        )
        ports = JournalWriterPorts(
            Sender(answers, self.listener),
            Sender(checkpoints, self.listener),
            (Sender(to_sink, self.sink),),
            Sender(room, self.coordinator),
            Sender(chunks, self.chunks),
            self.applied.append,
        )
        self.writer = JournalWriter(
            self.mailbox, self.metrics, settings, store, store.recover(), ports, (), UNPROTECTED
        )
        self.store = store
        self.task = asyncio.create_task(self.writer.run())

    async def put(self, *messages: ToJournalWriter) -> None:
        for message in messages:
            await self.mailbox.put(APPENDS, message)

    async def stop(self) -> None:
        self.mailbox.close()
        await self.task
