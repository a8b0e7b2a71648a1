"""HTML as text: what a browser would show, a block a line."""

from __future__ import annotations

import re
from collections import Counter

from selectolax.lexbor import LexborHTMLParser

from engine.stores.files.formats.limited import joined
from engine.stores.files.states import Unusable

#: What is not shown, or is shown beside every text of a site.
HIDDEN = ("script", "style", "noscript", "template", "svg", "head")
#: Elements that begin and end a line.
BLOCKS = (
    *("address article aside blockquote br caption dd details div dl dt fieldset figcaption figure footer form").split(),
    *("h1 h2 h3 h4 h5 h6 header hr li main nav ol option p pre section summary table tbody td tfoot th thead tr ul").split(),
)
#: A parser looks through all open elements at each new one: pages have some dozens, and what has thousands is no page.
MAX_DEPTH = 1_000
#: Never closed, or closed by what follows.
_CLOSED_BY_OTHERS = frozenset(
    "area base br col embed hr img input link meta source track wbr p li dt dd td th tr thead tbody tfoot option".split()
)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:-]{0,40})")


def html_text(markup: str) -> str:
    """The text of a page, its title first.

    Raises:
        Unusable: ``malformed`` if elements are nested too deeply.
    """
    if _depth(markup) > MAX_DEPTH:
        raise Unusable("malformed", f"its elements are nested more than {MAX_DEPTH:,} deep: close them, or save the page anew")
    page = LexborHTMLParser(markup)
    title = page.css_first("title")
    heading = title.text(strip=True) if title is not None else ""
    for node in page.css(", ".join(HIDDEN)):
        node.decompose()
    if page.body is None:
        return heading
    for node in page.css(", ".join(BLOCKS)):
        node.insert_before("\n")
        node.insert_after("\n")
    lines = (" ".join(line.split()) for line in page.body.text().splitlines())
    return joined(filter(None, (heading, *lines)))


def _depth(markup: str) -> int:
    """At least as many elements as are ever open at once, but for those that others close."""
    opened: Counter[str] = Counter()
    depth = deepest = 0
    for closing, name in _TAG.findall(markup):
        tag = name.lower()
        if tag in _CLOSED_BY_OTHERS:
            continue
        if not closing:
            opened[tag] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif opened[tag]:
            opened[tag] -= 1
            depth -= 1
    return deepest
