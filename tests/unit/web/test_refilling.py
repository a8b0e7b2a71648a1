"""A page whose form was refused: what was typed stands where it was typed, and what is wrong beside it."""

from __future__ import annotations

from werkzeug.datastructures import MultiDict

from web.admin.forms.reading import Page
from web.admin.forms.refilling import refilled
from web.admin.forms.refused import Problem

PAGE = """<main id="main"><details class="add"><summary>Add</summary>
<form action="/add?group=g" method="post"><input type="hidden" name="csrf_token" value="t">
<label>Agent <input name="agent" value="old" aria-describedby="help" required></label>
<label>Text <textarea name="text">as it was</textarea></label>
<label>Days <select name="days"><option value="1">one</option><option value="7" selected>seven</option><option>30</option></select></label>
<label><input type="checkbox" name="scope" value="read" checked></label><label><input type="checkbox" name="scope" value="admin"></label>
<input type="password" name="secret"></form></details>
<form action="/undo" method="post"><input type="hidden" name="version" value="1"><input name="why"></form>
<form action="/undo" method="post"><input type="hidden" name="version" value="2"><input name="why"></form>
<form action="/search"><input name="agent"></form></main>"""
EVIL = "</textarea><script>alert('记')</script>\" autofocus x=\""


def again(address: str, problems: list[Problem], **sent: str | list[str]) -> str:
    return refilled(PAGE, address, MultiDict(sent), problems)


def test_every_kind_of_field_is_as_it_was_sent() -> None:
    html = again("/add", [Problem("", "no")], agent=EVIL, text=EVIL, days="30", scope=["admin"], secret="hidden words", csrf_token="x")
    form = Page(html).forms[0]
    fields = {(tag.get("name"), tag.get("value") if tag.kind == "checkbox" else ""): tag for tag in form.fields}
    assert fields["agent", ""].get("value") == EVIL
    assert fields["agent", ""].has("required")
    assert "&lt;/textarea&gt;&lt;script&gt;" in html[slice(*fields["text", ""].within)]
    assert "<script>" not in html
    assert [option.has("selected") for _, option in form.options] == [False, False, True]
    assert not fields["scope", "read"].has("checked")
    assert fields["scope", "admin"].has("checked")
    assert "hidden words" not in html
    assert fields["csrf_token", ""].get("value") == "t"
    assert form.folded[0].has("open")
    assert html.count("<form") == PAGE.count("<form")
    assert [tag.get("value") for tag in Page(html).forms[3].fields] == [""]


def test_what_is_wrong_stands_beside_the_field_that_it_names_and_the_first_has_the_focus() -> None:
    html = again("/add", [Problem("agent_id", "is <needed>"), Problem("text", "too long"), Problem("scope", "choose one")], agent="")
    agent, text = (next(Page(html).forms[0].named(name)) for name in ("agent", "text"))
    assert agent.has("autofocus")
    assert agent.get("aria-invalid") == "true"
    assert agent.get("aria-describedby") == "refused-agent help"
    assert html[agent.end :].startswith('<small class="refused" id="refused-agent" role="alert" data-message>is &lt;needed&gt;</small>')
    assert html[text.end :].startswith('<small class="refused" id="refused-text"')
    assert html.count("autofocus") == 1
    assert "data-message>scope: choose one</p>" in html[: agent.place[0]]  # beside one of several boxes it would say little


def test_what_names_no_field_stands_above_the_form_with_the_focus() -> None:
    html = again("/undo", [Problem("", "Somebody was first.")], version="2", why="so")
    above = '<p class="said refused" role="alert" tabindex="-1" autofocus data-message>Somebody was first.</p>'
    first, second = Page(html).forms[1:3]
    assert html[second.tag.place[1] :].startswith(above)
    assert next(second.named("why")).get("value") == "so"
    assert not next(first.named("why")).has("value")


def test_without_the_form_what_is_wrong_stands_above_the_page() -> None:
    html = again("/gone", [Problem("x", "It is not there any more.")], other="1")
    assert html.startswith('<main id="main"><p class="said refused"')
    assert html.endswith(PAGE.removeprefix('<main id="main">'))


def test_a_form_that_another_button_sends_elsewhere_is_known_by_its_fields() -> None:
    html = again("/add-and-go", [Problem("text", "no")], agent="Mia", text="typed")
    assert next(Page(html).forms[0].named("agent")).get("value") == "Mia"


def test_sentences_are_told_apart_from_the_field_that_they_name() -> None:
    assert Problem.of("days: must be one of 1, 7.") == ("days", "must be one of 1, 7.")
    assert Problem.of("Whom? Give a name: one.") == ("", "Whom? Give a name: one.")
    assert str(Problem("days", "no")) == "days: no"
