"""A program that uses the REST API with a key of its own. The fixtures are in ``conftest``."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient


class Program:
    """A program with a key."""

    def __init__(self, client: FlaskClient, key: str) -> None:
        self.client, self.headers = client, {"Authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, status: int | None = None, **options: Any) -> Any:
        headers = {**self.headers, **options.pop("headers", {})}
        answer = self.client.open(f"/api/v1{path}", method=method, headers=headers, **options)
        if status is not None:
            assert answer.status_code == status, answer.text
        if answer.status_code >= 400 and method != "HEAD":
            assert answer.mimetype == "application/problem+json", answer.text
            assert answer.json["status"] == answer.status_code
            assert answer.json["instance"]
            assert "Traceback" not in answer.text
        return answer

    def get(self, path: str, status: int = 200, **query: Any) -> Any:
        return self.ask("GET", path, status, query_string=query).json

    def post(self, path: str, body: Any = None, status: int = 202) -> Any:
        return self.ask("POST", path, status, **({} if body is None else {"json": body})).json
