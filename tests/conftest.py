"""Fixtures for all tests."""

from tests.servers.mysql import database, mysql, mysql_factory, parts

__all__ = ["database", "mysql", "mysql_factory", "parts"]
