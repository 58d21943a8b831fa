"""Connectors for tests: the folder with whole ones, and the least that one has to say."""

from pathlib import Path

from pipeline.config.debezium.connector import CONNECTOR

CONNECTORS = Path(__file__).parent

LEAST = {
    "connector.class": CONNECTOR,
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.user": "u",
    "database.server.id": "7",
}
