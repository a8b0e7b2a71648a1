"""web.show: characters that turn the direction of what follows are seen, and what is sent back stays as it
is.
"""

from __future__ import annotations

import pytest

from web.show import show_controls

RLO, PDI = "\u202e", "\u2069"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        (f"<p>Maria{RLO}nimda</p>", "<p>Maria\\u202enimda</p>"),
        (f"<b>{PDI}</b>{RLO}<i>x</i>", "<b>\\u2069</b>\\u202e<i>x</i>"),
        (f'<input value="{RLO}"><p>a</p>', f'<input value="{RLO}"><p>a</p>'),
        (
            f'<textarea name="x">{RLO}</textarea><p>{RLO}</p>',
            f'<textarea name="x">{RLO}</textarea><p>\\u202e</p>',
        ),
        ("<p>שלום عليكم 你好</p>", "<p>שלום عليكم 你好</p>"),
        ("<p>\u200f\u200d</p>", "<p>\u200f\u200d</p>"),  # marks and joiners belong to words
        (f"<option selected>{RLO}</option>", "<option selected>\\u202e</option>"),
    ],
)
def test_what_is_seen_is_escaped(html: str, expected: str) -> None:
    assert show_controls(html) == expected
