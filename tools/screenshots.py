"""The pictures of docs/operations.md: ``python -m tools.screenshots [--minutes N] [FOLDER]``, by default
``docs/images``.

Starts a service of its own, lets it live through the sample diary in a quarter of an hour, so that the plots
have something to show, and looks at its admin with Chromium. Run it after the pages have changed, and look at
what it made.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import kombu
from playwright.sync_api import Browser, Page, expect, sync_playwright
from rich.console import Console

from jiyi import Client
from jiyi.protocol.wire.broker import exchange
from jiyi.settings import get_settings
from models.db.scope import whole_service
from workers import demo, ephemeral, up
from workers.migrate import CHECKOUT

#: Nobody waits for a page with a larger one.
MOST_BYTES = 200_000
DESK, PHONE = {"width": 1200, "height": 860}, {"width": 390, "height": 844}
PATIENCE_MS = 30_000
WAIT_SECONDS = 60
MINUTES = 15.0
#: Seconds between two looks at the agents' lives.
STEP_SECONDS = 10.0
#: So much importance never adds up: they reflect once, in the end (``workers.demo``).
NEVER = "1000000"
NEWS = (
    ("林岚", "小满从考场打来电话，说作文题目是渡船"),
    ("Tomas", "The glaze on the last cup came out the colour of river ice"),
    ("林岚", "砚台在新到的书箱里睡着了"),
)
SOULS = (
    "I am a potter by the river.\nI speak Chinese slowly, and to everybody.",
    "I am a potter and a beekeeper by the river.\nI speak Chinese slowly, and to everybody.",
    "I am a potter and a beekeeper by the river.\nI speak Chinese better every week, and to everybody.",
)
REASONS = ("He says so himself", "Four hives since April", "Teacher Xu hears it, too")
#: Memories beneath the thought whose page is shown.
EVIDENCE = 3
#: What programs get wrong, as it comes to the exchange.
BROKEN: tuple[dict[str, Any], ...] = (
    {"type": "memory.observed", "group_id": demo.GROUP, "agent_id": "Tomas", "payload": {"poignancy": 4}},
    {
        "type": "memory.observed",
        "group_id": demo.GROUP,
        "agent_id": "林岚",
        "payload": {"description": "雨", "poignancy": 11},
    },
    {
        "type": "memory.dreamt",
        "group_id": demo.GROUP,
        "agent_id": "Tomas",
        "payload": {"description": "A hive of glass"},
    },
)

console = Console(highlight=False)


class Pictures:
    def __init__(self, browser: Browser, address: str, password: str, folder: Path) -> None:
        self._browser, self._address, self._folder = browser, address, folder
        page = self._page()
        page.goto("/sign-in")
        page.get_by_label("Name").fill(up.ADMIN)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/")
        self._signed_in = page.context.storage_state()
        page.context.close()

    def _page(self, **options: Any) -> Page:
        context = self._browser.new_context(
            **{"base_url": self._address, "viewport": DESK, "locale": "en-GB", **options}
        )
        context.set_default_timeout(PATIENCE_MS)
        return context.new_page()

    @contextmanager
    def of(self, name: str, path: str, *, height: int | None = None, **options: Any) -> Iterator[Page]:
        """The page, to be brought into shape; its picture is taken at the end. ``height``: more or less than
        the window.
        """
        if height is not None:
            options["viewport"] = {**options.get("viewport", DESK), "height": height}
        page = self._page(storage_state=self._signed_in, **options)
        page.goto(path)
        yield page
        file = self._folder / f"admin-{name}.png"
        page.screenshot(path=file, animations="disabled")
        page.context.close()
        size = file.stat().st_size
        console.print(f"{file}  {size:,} bytes{'  TOO LARGE' if size > MOST_BYTES else ''}")


def take(pictures: Pictures) -> None:
    group = f"group={demo.GROUP}"
    with Client(demo.GROUP) as client:
        thoughts = client.memory.list(agent_id="Tomas", types=["thought"], limit=100).rows
        thought = next(
            row for row in thoughts if len(client.memory.why(id=row.node_id).nodes) == EVIDENCE + 1
        )
    with pictures.of("overview", f"/?{group}", height=1_000) as page:
        expect(page.locator("figure canvas")).to_have_count(4)
        expect(page.locator(".plots [data-plot-note]")).to_be_hidden()
    with pictures.of("memories", f"/memories?{group}&q=bees") as page:
        expect(page.locator(".kinds a").first).to_be_visible()
    with pictures.of("memory", f"/nodes/{demo.GROUP}/{thought.node_id}", height=930) as page:
        expect(page.locator(".graph")).to_be_visible()
        expect(page.locator(".near")).to_be_visible()
    question = "How did Tomas injure himself at the kiln?".replace(" ", "+")
    address = (
        f"/playground?{group}&agent=Tomas&focal={question}&compare=1&b.relevance_w=0.3&b.importance_w=2.5"
    )
    with pictures.of("playground", address, height=1_000) as page:
        page.get_by_role("region", name="Answer A").locator("summary").first.click()
    with pictures.of("agent", f"/agents/{demo.GROUP}/林岚", height=1_000):
        pass
    with pictures.of("traces", f"/traces?{group}", height=760):
        pass
    with pictures.of("identity", f"/identity/{demo.GROUP}/Tomas", height=760):
        pass
    with pictures.of("dead-letters", f"/dead?{group}", height=700) as page:
        expect(page.locator("ol.letters > li")).to_have_count(len(BROKEN))
        page.get_by_role("checkbox", name="Choose this letter").first.check()
    for name, days in (("crawler", "90"), ("dify", "365")):
        with pictures.of("keys", f"/keys?{group}", height=560) as page:
            page.locator("details.panel").evaluate("(panel) => { panel.open = true; }")
            page.get_by_label("Used by").fill(name)
            page.get_by_label("Valid for").select_option(days)
            page.get_by_role("button", name="Make the key").click()
            expect(page.locator("#secret")).to_be_visible()
            page.goto(f"/keys?{group}")  # without the secret
    with pictures.of("phone", f"/?{group}", viewport=PHONE):
        pass
    with pictures.of("dark", f"/agents/{demo.GROUP}/Tomas", color_scheme="dark"):
        pass
    with pictures.of("zh", f"/?{group}", locale="zh-CN", height=1_000) as page:
        expect(page.locator("figure canvas")).to_have_count(4)

    with pictures.of("events", f"/events?{group}", height=620) as page, Client(demo.GROUP) as client:
        expect(page.locator(".live-state")).to_have_text("live")
        for agent, text in NEWS:  # last of all: it is not of the diary's time
            client.observe(agent, text, poignancy=5, wait=True)
            expect(page.locator("#events > li").first.locator(".state")).to_have_text("retrievable")
            expect(page.locator("#events > li").first).to_contain_text(text[:20])
        page.mouse.move(0, 0)
        expect(page.locator("#events > li.fresh").first).to_be_visible()


def live(minutes: float) -> None:
    """The diary bit by bit, and questions in between."""
    diary = [json.loads(line) for line in demo.DIARY.read_text(encoding="utf-8").splitlines()]
    now = max(datetime.fromisoformat(event["occurred_at"]) for event in diary) + timedelta(hours=1)
    chance = random.Random(7)  # noqa: S311 – a picture, no secret
    steps = int(minutes * 60 / STEP_SECONDS)
    cuts = sorted(chance.sample(range(1, len(diary)), min(steps - 1, len(diary) - 1))) if steps > 1 else []
    with Client(demo.GROUP) as client:
        for begin, end in zip([0, *cuts], [*cuts, len(diary)], strict=True):
            client.wait_for(client.observe_many(diary[begin:end]), WAIT_SECONDS)
            for _ in range(chance.randint(0, 6)):
                agent, question = chance.choice(demo.QUESTIONS)
                client.retrieve(agent, question, now=now, touch=False)
            time.sleep(STEP_SECONDS)


def become_somebody() -> None:
    """Who Tomas is: two versions, and a proposal that waits."""
    with Client(demo.GROUP) as client:
        for number, text in enumerate(SOULS):
            proposed = client.identity.propose(
                agent_id="Tomas", file="SOUL", suggested=text, reason=REASONS[number]
            )
            if text != SOULS[-1]:
                client.proposals.decide(id=proposed.id, decision="approve")


def send_broken() -> None:
    settings = get_settings()
    with kombu.Connection(settings.need("broker_url")) as connection:
        for event in BROKEN:
            connection.Producer(exchange=exchange()).publish(
                json.dumps(event),
                routing_key=str(event["type"]),
                content_type="application/json",
                content_encoding="utf-8",
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="that the service lives before it is looked at"
    )
    parser.add_argument("folder", type=Path, nargs="?", default=CHECKOUT / "docs" / "images")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print(
            "tools.screenshots: there is no Chromium: apt-get install chromium fonts-noto-cjk",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="jiyi-pictures-") as name:
        home = Path(name)
        home.chmod(0o711)  # under root PostgreSQL has a user of its own
        with (
            ephemeral.database(home, group=demo.GROUP, agent_defaults=f"importance_trigger_max={NEVER}"),
            ephemeral.processes(home / "log"),
            whole_service(),
        ):
            password = up.create_admin() or ""
            live(options.minutes)
            demo.play(console)
            send_broken()
            become_somebody()
            with ephemeral.served(home / "log") as (port, _process), sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
                take(Pictures(browser, f"http://127.0.0.1:{port}", password, options.folder))
                browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
