"""The webhook of alerts, by a real HTTP server: each alert arrives, whatever the server does first."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from actors.runtime.secret_files import read_secret
from actors.status import alert_webhook
from actors.status.alert_webhook import AlertWebhook
from pipeline.config.secret import Secret
from pipeline.config.settings import AlertSettings
from pipeline.errors import Backoff
from pipeline.signals.alerts import step as alerts
from tests.servers.webhook import TOKEN, Receiver, receiver

__all__ = ["receiver"]


class Watched:
    """A service's status, which a webhook watches."""

    def __init__(self, settings: AlertSettings, folder: Path) -> None:
        self.stopped: dict[str, str] = {}
        self.file = folder / "webhook.json"
        self.settings = settings

    def webhook(self) -> AlertWebhook:
        return AlertWebhook(self.settings, "shop", self.file, self.status, dict)

    def status(self) -> dict[str, Any]:
        return {"stopped": self.stopped, "snapshots": [], "actors": {"SparkSink": {}}}


@pytest.fixture
def watched(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(alert_webhook, "LOOK_EVERY_S", 0.01)
    return Watched(AlertSettings(Secret(receiver.address)), tmp_path)


async def test_an_alert_arrives_once_whatever_the_webhook_answers_first(
    receiver: Receiver, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "POST_BACKOFF", Backoff(0.001, alerts.POST_BACKOFF.longest_s))
    monkeypatch.setattr(alert_webhook, "POST_S", 0.5)
    receiver.answers = [500, 302, None]
    watched.stopped["shop.orders"] = "its engine"
    with capture_logs() as lines:
        task = asyncio.create_task(watched.webhook().run())
        await receiver.until(lambda got: len(got) == 4)
        watched.stopped["shop.items"] = "a value"
        await receiver.until(lambda got: "shop.items" in got)
        task.cancel()
        await asyncio.wait({task})
    assert [each["subject"] for each in receiver.got] == ["shop.orders"] * 4 + ["shop.items"]
    assert len({each["id"] for each in receiver.got[:4]}) == 1
    assert receiver.got[0]["reason"] == "its engine"
    assert [line["event"] for line in lines] == [
        "the webhook didn't take an alert; it's posted again",
        "the webhook takes alerts again",
    ]
    assert TOKEN not in json.dumps(lines)
    # A restart knows what was taken, and posts what comes.
    watched.stopped["shop.more"] = "so"
    task = asyncio.create_task(watched.webhook().run())
    await receiver.until(lambda got: "shop.more" in got)
    task.cancel()
    await asyncio.wait({task})
    assert "shop.orders" not in [each["subject"] for each in receiver.got[5:]]


async def test_the_end_is_posted_and_what_is_not_taken_by_then_comes_with_the_next_start(
    receiver: Receiver, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_webhook, "END_S", 0.3)
    receiver.answers = [None]
    await watched.webhook().end("the binlog was purged")
    assert [each["kind"] for each in receiver.got] == ["service-ended"]
    task = asyncio.create_task(watched.webhook().run())
    await receiver.until(lambda got: len(got) == 2)
    task.cancel()
    await asyncio.wait({task})
    assert receiver.got[0] == receiver.got[1]


async def test_an_address_comes_from_a_file_that_may_change(
    receiver: Receiver, watched: Watched, tmp_path: Path
) -> None:
    file = tmp_path / "address"
    file.write_text("http://127.0.0.1:1/gone\n")
    watched.settings = AlertSettings(read_secret(file))
    webhook = watched.webhook()
    with capture_logs() as lines:
        await webhook.end("so")
    assert lines[0]["reason"] == "ClientConnectorError"
    file.write_text(f"{receiver.address}\n")
    await webhook.end("and so")
    assert [each["reason"] for each in receiver.got] == ["so", "and so"]


async def test_what_was_kept_and_is_damaged_is_named_and_forgotten(
    receiver: Receiver, watched: Watched
) -> None:
    watched.file.write_text("{")
    with capture_logs() as lines:
        await watched.webhook().end("so")
    assert lines[0]["event"].startswith("the kept alerts can't be read")
    assert len(receiver.got) == 1
