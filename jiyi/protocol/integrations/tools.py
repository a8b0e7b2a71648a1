"""The tools that a program offers its LLM: what ``GET /api/v1/tools`` answers, and ``jiyi mcp`` serves."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Tool(BaseModel):
    """One tool, and how to call it over HTTP."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any] = Field(description="JSON schema of its arguments.")
    method: str
    path: str = Field(description="With the names of arguments in braces.")
    in_path: list[str] = Field(description="Arguments that take the place of the path's braces, percent-encoded.")
    in_query: list[str] = Field(description="Arguments behind the question mark; all others are fields of the body.")
    read_only: bool
    destructive: bool


class Tools(BaseModel):
    """Tools that the key may use."""

    tools: list[Tool]
