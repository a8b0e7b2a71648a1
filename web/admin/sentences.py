"""What the service refuses in whole sentences, in the language of whoever reads them.

REST, the command line and the log say them in English, and the service hands them over as finished text; here each is known by its
template, which gives back its values. What no template fits is shown as it is. A test compares the templates with the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flask_babel import gettext

_VALUE = re.compile(r"%\((\w{1,40})\)s")
#: Values that are words of ours, not of people.
_STATES = frozenset({"state", "kind", "verb", "states"})


def sentence(template: str) -> str:
    """Marks a template for the catalogue of translations (``tools/translations.py``)."""
    return template


SENTENCES = (
    # pydantic's own, where a request was checked beyond the form
    sentence("Input should be greater than or equal to %(least)s (got %(value)s)"),
    sentence("Input should be less than or equal to %(most)s (got %(value)s)"),
    sentence("Input should be greater than %(least)s (got %(value)s)"),
    sentence("Input should be less than %(most)s (got %(value)s)"),
    sentence("Input should be a finite number (got %(value)s)"),
    sentence("Input should be a valid integer, unable to parse string as an integer (got %(value)s)"),
    sentence("Input should be a valid number, unable to parse string as a number (got %(value)s)"),
    sentence("Input should be a valid boolean, unable to interpret input (got %(value)s)"),
    sentence("String should have at least %(least)s characters (got %(value)s)"),
    sentence("String should have at most %(most)s characters (got %(value)s)"),
    sentence("String should have at least %(least)s character (got %(value)s)"),
    sentence("Extra inputs are not permitted"),
    sentence("required, but missing"),
    sentence("must not be blank"),
    # memories
    sentence("%(count)s characters are more than %(most)s; split the text into several memories"),
    sentence("%(count)s keywords are more than %(most)s; send the most telling ones"),
    sentence("contains a NUL character (\\u0000); remove it"),
    sentence("contains half of a surrogate pair; send valid Unicode"),
    sentence("give this, or another field that is to change"),
    sentence("the group %(group)s has no memory %(id)s"),
    sentence("%(id)s is what was said in a conversation, which no update changes: observe what is so"),
    sentence("%(id)s is superseded by %(by)s: update the version in force"),
    sentence("no agent %(agent)s in the group %(group)s; see `jiyi agents`"),
    sentence("%(count)s characters are more than %(most)s; ask with a summary"),
    sentence("%(count)s is more than %(most)s"),
    sentence("the stanford mode ranks as the original does, which thins nothing: leave one out"),
    sentence("There is no dead letter %(id)s in the group %(group)s."),
    # erasure
    sentence("%(least)s letters or digits at least: shorter names are part of too many words"),
    sentence("give one of agent_id, person and node_ids"),
    sentence("only a person has other names"),
    sentence("none of these is a memory of the group %(group)s"),
    # people and keys
    sentence("1 to 64 letters, digits and . @ + - _"),
    sentence("a password has at least %(least)s characters"),
    sentence("a password has at most %(most)s characters"),
    sentence("%(name)s is taken"),
    sentence("%(name)s is the last operator; add another one first"),
    sentence("nobody here is called %(name)s; see `jiyi users list`"),
    sentence("an operator sees all of them; give none"),
    sentence("give either names of groups or all_groups, not both"),
    sentence("name at least one group, or choose all groups explicitly (all_groups)"),
    sentence("only an operator can set the password of somebody else"),
    sentence("only an operator can make an operator's key"),
    sentence("lies in the past"),
    sentence("no key %(id)s here; see `jiyi keys list`"),
    sentence("%(id)s is %(state)s; create a new one"),
    # growth
    sentence("has %(count)s characters, at most %(most)s are kept; say it shorter"),
    sentence("has the character U+%(code)s, which nobody sees; leave it out"),
    sentence("reads like an attempt to override instructions (%(words)s); say it in other words"),
    sentence("USER follows the profile; use identity.update_user for what people add to it"),
    sentence("version %(now)s of %(file)s is in force, not %(read)s; read it first"),
    sentence("it rests on version %(base)s of %(file)s, and %(now)s is in force now; read that, and propose the change anew"),
    sentence("is what %(file)s says already"),
    sentence("it was %(state)s already"),
    sentence("it was %(state)s by %(name)s already"),
    sentence("no proposal %(id)s in the group %(group)s; see identity.proposals"),
    sentence("%(file)s of %(agent)s has no version %(version)s; see identity.history"),
    sentence("the agent %(agent)s has no snapshot %(id)s; see identity.versions"),
    sentence("the pain point is %(state)s; reopen it first (pains.resolve)"),
    sentence("another proposal waits for somebody to decide on it; see pains.get"),
    sentence("a proposal waits for somebody to decide on it; see pains.get"),
    sentence("nothing is proposed that could be decided on; see pains.propose"),
    sentence("no pain point %(id)s in the group %(group)s; see pains.list"),
    sentence("the %(kind)s is %(state)s, decided by %(name)s; only what is %(states)s can be %(verb)s"),
    sentence("the %(kind)s is %(state)s; only what is %(states)s can be %(verb)s"),
    sentence("the %(kind)s is %(state)s already, decided by %(name)s"),
    sentence("the %(kind)s is %(state)s already"),
    sentence("no %(kind)s %(id)s in the group %(group)s"),
    # appointments and heartbeats
    sentence("no time zone %(zone)s; use a name such as Asia/Shanghai or Europe/Berlin"),
    sentence("must differ from start; for no quiet hours give null"),
    sentence("needs five fields: minute, hour, day of month, month, day of week"),
    sentence("that time has passed; give one that is to come"),
    sentence("its time has passed; make a new schedule"),
    sentence("needed, unless text is given"),
    sentence("give a text or the fields of a schedule, not both"),
    sentence("%(agent)s has %(count)s schedules; delete some"),
    sentence("%(agent)s has no heartbeat; configure or enable it first"),
    # stores and tiers
    sentence("the group %(group)s has no store %(name)s: declare it with `jiyi stores apply`"),
    sentence("the group %(group)s has no knowledge %(id)s"),
    sentence("there is nothing in it to keep"),
    sentence("no memory is embedded yet, so there is nothing to move: set JIYI_EMBEDDER"),
    sentence("no move is under way that could be ended"),
)


def told(text: str) -> str:
    """A sentence of the service in the language of the request."""
    for template in SENTENCES:
        values = values_of(template, text)
        if values is not None:
            translated: str = gettext(template) % {name: _word(value) if name in _STATES else value for name, value in values.items()}
            return translated
    return text


def values_of(template: str, text: str) -> dict[str, str] | None:
    """What stands in a text where its template has values; None if it is no text of this template. A value is as short as it can be."""
    parts = _VALUE.split(template)
    fixed, names = parts[::2], parts[1::2]
    if not names:
        return {} if text == template else None
    if not text.startswith(fixed[0]) or not text.endswith(fixed[-1]):
        return None
    between = list(_between(text[len(fixed[0]) : len(text) - len(fixed[-1])], fixed[1:-1]))
    return dict(zip(names, between, strict=True)) if len(between) == len(names) and all(between) else None


def _between(text: str, fixed: list[str]) -> Iterator[str]:
    """The parts of a text between fixed ones, in order; fewer if one is not there."""
    for piece in fixed:
        before, here, text = text.partition(piece)
        if not here:
            return
        yield before
    yield text


def _word(value: str) -> str:
    return " / ".join(gettext(word) for word in value.split(" or "))
