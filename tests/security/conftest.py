"""Attacks go through the doors of a real service: the fixtures are those of the reports."""

from __future__ import annotations

from tests.reports.conftest import *  # noqa: F403 – what pytest finds here, it finds by name
