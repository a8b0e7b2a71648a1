"""A page with one of its forms as it was sent, and what is wrong with it beside the fields.

It works on the page's text, so that no template has to know of it: whatever form a page has can be refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape, unescape

from werkzeug.datastructures import MultiDict

from web.admin.forms.reading import UNWRITTEN, Form, Page, Span, Tag
from web.admin.forms.refused import Problem

#: What a request calls a field besides its own name: an agent's name is ``agent_id`` there.
_ENDINGS = ("", "_id", "_ids")
_BOXES = ("checkbox", "radio")


def refilled(html: str, address: str, sent: MultiDict[str, str], problems: Sequence[Problem]) -> str:
    """The page again. What was typed stands in the form that was sent to the address; passwords have to be typed anew.

    The first field with a problem has the focus, or the message of the whole, which stands above the form; above the page if the
    form is not there any more.
    """
    page = Page(html)
    form = _sent_form(page.forms, address, sent)
    texts: dict[Span, str] = {}
    beside: dict[str, Problem] = {}
    above = []
    for problem in problems:
        field = None if form is None else field_of(form, problem.field)
        if field is None or field.get("name") in beside:
            above.append(problem)
        else:
            beside[field.get("name")] = problem
            texts[field.end, field.end] = _mark(field, problem, focus=len(beside) == 1)
    top = form.tag if form is not None else page.main
    if top is not None:
        end = top.place[1]
        texts[end, end] = "".join(_above(problem, focus=not beside and not place) for place, problem in enumerate(above))
    if form is not None:
        _fill(form, sent, html, texts)
        texts |= {tag.place: tag.written() for tag in form.changed()}
    return _changed(html, texts)


def field_of(form: Form, name: str) -> Tag | None:
    """The field that is meant by a name of a form or of a request; None if there is nothing beside which words could stand."""
    last = name.rpartition(".")[2]
    names = [last.removesuffix(ending) for ending in _ENDINGS if last.endswith(ending)]
    return next((field for one in names for field in form.named(one) if field.kind not in ("hidden", *_BOXES)), None)


def _sent_form(forms: Sequence[Form], address: str, sent: MultiDict[str, str]) -> Form | None:
    """Of several with one address the one with the same hidden values; without any, one that has fields of these names."""

    def likeness(form: Form) -> tuple[bool, int, int]:
        path = unescape(form.tag.get("action")).partition("?")[0]
        hidden = sum(one.kind == "hidden" and one.get("value") in sent.getlist(one.get("name")) for one in form.fields)
        written = {one.get("name") for one in form.fields if one.kind not in UNWRITTEN}
        return path == address, hidden, len(written & set(sent))

    best = max((form for form in forms if form.tag.get("method").lower() == "post"), key=likeness, default=None)
    if best is None:
        return None
    same, _, names = likeness(best)
    return best if same or names else None


def _fill(form: Form, sent: MultiDict[str, str], html: str, texts: dict[Span, str]) -> None:
    """Every field as it was sent; ``texts`` gets what stands in larger ones."""
    rest = {name: list(values) for name, values in sent.lists()}
    for field in form.fields:
        name = field.get("name")
        if field.kind in _BOXES:
            _choose(field, "checked", (field.get("value") or "on") in sent.getlist(name))
        elif rest.get(name) and field.kind not in (*UNWRITTEN, "select"):
            text = rest[name].pop(0)
            if field.name == "textarea":
                texts[field.within] = "\n" + escape(text)  # browsers leave out the first line break
            else:
                field.set("value", text)
    for select, option in form.options:
        value = option.get("value") if option.has("value") else unescape(html[slice(*option.within)]).strip()
        if select.get("name") in sent:
            _choose(option, "selected", value in sent.getlist(select.get("name")))
    for folded in form.folded:
        folded.set("open", None)


def _choose(tag: Tag, attribute: str, chosen: bool) -> None:
    if chosen:
        tag.set(attribute, None)
    else:
        tag.drop(attribute)


def _mark(field: Tag, problem: Problem, *, focus: bool) -> str:
    """What is said beside a field, which points to it."""
    id_ = f"refused-{field.get('name')}"
    field.set("aria-invalid", "true")
    field.set("aria-describedby", " ".join(filter(None, (id_, field.get("aria-describedby")))))
    if focus:
        field.set("autofocus", None)
    return f'<small class="refused" id="{escape(id_)}" role="alert" data-message>{escape(problem.text)}</small>'


def _above(problem: Problem, *, focus: bool) -> str:
    focused = " autofocus" if focus else ""
    return f'<p class="said refused" role="alert" tabindex="-1"{focused} data-message>{escape(str(problem))}</p>'


def _changed(html: str, texts: dict[Span, str]) -> str:
    parts, at = [], 0
    for (begin, end), text in sorted(texts.items()):
        parts += [html[at:begin], text]
        at = end
    return "".join([*parts, html[at:]])
