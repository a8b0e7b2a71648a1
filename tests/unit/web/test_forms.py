"""A form that is refused is shown as it was sent, with what is wrong beside the field that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask, g, render_template_string
from werkzeug.datastructures import MultiDict

from tests.integration.web.markup import Tag, parsed
from web.admin.forms import Form, FormProblem, RefusedForm, above_the_page, form_of

EVIL = "</textarea><script>alert('记')</script>\" autofocus x=\""
PAGE = """{% from "_forms.html" import area, box, choice, field, password, refused %}
{% set form = form_of("/add?group=g", "agent", "text", "days", "secret") %}
<form action="/add" method="post">{% for problem in form.above %}{{ refused(problem, not form.first) }}{% endfor %}
{{ field(form, "agent", "Tomas", "help", required=true, maxlength=none) }}
{{ area(form, "text", "old") }}{{ choice(form, "days", ((1, "a day"), (7, "a week"))) }}
{{ box(form, "scope", "read", on=true) }}{{ box(form, "scope", "admin") }}{{ password(form, "secret") }}</form>
{% for problem in above_the_page() %}{{ refused(problem, loop.first) }}{% endfor %}"""


@pytest.fixture
def app() -> Flask:
    app = Flask("web", root_path=str(Path(__file__).resolve().parents[3] / "web"))
    app.jinja_env.globals.update(form_of=form_of, above_the_page=above_the_page)
    return app


def page(app: Flask, address: str, problems: list[FormProblem], **sent: str | list[str]) -> Tag:
    with app.test_request_context():
        g.refusal = RefusedForm(address, MultiDict(sent), problems)
        return parsed(render_template_string(PAGE))


def test_every_kind_of_field_is_as_it_was_sent(app: Flask) -> None:
    sent: dict[str, Any] = {
        "agent": EVIL,
        "text": EVIL,
        "days": "7",
        "scope": ["admin"],
        "secret": "hidden words",
    }
    shown = page(app, "/add", [FormProblem("", "no")], **sent)
    assert (shown.named("agent").get("value"), shown.named("text").text.strip()) == (EVIL, EVIL)
    assert [option.has("selected") for option in shown.named("days").all("option")] == [False, True]
    assert [tag.has("checked") for tag in shown.all("input") if tag.get("name") == "scope"] == [False, True]
    assert not shown.named("secret").has("value")
    assert not any(shown.all("script"))


def test_a_form_that_was_not_sent_is_as_its_page_has_it(app: Flask) -> None:
    shown = page(app, "/other", [FormProblem("agent", "is gone")], agent="Mia")
    assert (shown.named("agent").get("value"), shown.named("text").text.strip()) == ("Tomas", "old")
    assert shown.named("agent").get("aria-describedby") == "help"
    assert not shown.named("agent").has("maxlength")
    assert [tag.has("checked") for tag in shown.all("input") if tag.get("name") == "scope"] == [True, False]
    # Above the page.
    assert [(tag.text, tag.has("autofocus")) for tag in shown.all("p")] == [("agent: is gone", True)]


def test_what_is_wrong_stands_beside_its_field_and_the_first_has_the_focus(app: Flask) -> None:
    wrong = {"agent_id": "is <needed>", "text": "too long", "scope": "choose one"}
    shown = page(app, "/add", [FormProblem(field, text) for field, text in wrong.items()], agent="")
    assert shown.named("agent").get("aria-describedby") == "refused-agent help"
    beside = [(tag.get("id"), tag.text) for tag in shown.all("small")]
    assert beside == [("refused-agent", "is <needed>"), ("refused-text", "too long")]
    assert [tag.get("name") for tag in shown.all() if tag.has("autofocus")] == ["agent"]
    # Beside one of several boxes it would say little.
    assert [tag.text for tag in shown.all("p")] == ["scope: choose one"]


def test_a_sentence_may_begin_with_the_field_that_it_names() -> None:
    assert FormProblem.of("days: must be one of 1, 7.") == ("days", "must be one of 1, 7.")
    assert FormProblem.of("Whom? Give a name: one.") == ("", "Whom? Give a name: one.")
    assert str(FormProblem("days", "no")) == "days: no"
    first = FormProblem("", "Somebody was first.")
    refused = Form(RefusedForm("/undo", MultiDict(), [first]), ["why"])
    assert (refused.above, refused.first) == ([first], None)  # what names no field has the focus
