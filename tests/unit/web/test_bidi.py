"""web.show: characters that turn the direction of what follows are seen, and what is sent back stays as it
is.
"""

from __future__ import annotations

from flask import Flask

from web import show
from web.show import show_controls

RLO, PDI = "\u202e", "\u2069"


def test_what_is_seen_is_escaped() -> None:
    same = ["<p>שלום عليكم 你好</p>", "<p>\u200f\u200d</p>", f'<input value="{RLO}"><p>a</p>']
    for html, expected in {
        f"<p>Maria{RLO}nimda</p>": "<p>Maria\\u202enimda</p>",
        f"<b>{PDI}</b>{RLO}<i>x</i>": "<b>\\u2069</b>\\u202e<i>x</i>",
        f"<textarea>{RLO}</textarea><p>{RLO}</p>": f"<textarea>{RLO}</textarea><p>\\u202e</p>",
        f"<option selected>{RLO}</option>": "<option selected>\\u202e</option>",
        **dict(zip(same, same, strict=True)),  # marks and joiners belong to words
    }.items():
        assert show_controls(html) == expected


def test_of_all_marks_of_their_block_pages_with_these_alone_are_changed() -> None:
    """Pages are looked at as bytes."""
    app = Flask(__name__)
    show.register(app)
    app.add_url_rule("/<char>", view_func=lambda char: f"<p>{char}</p>")
    asked = {chr(code): app.test_client().get(f"/{chr(code)}").text for code in range(0x2000, 0x2070)}
    controls = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
    assert {char for char, page in asked.items() if page != f"<p>{char}</p>"} == controls
