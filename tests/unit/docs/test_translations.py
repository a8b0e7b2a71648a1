"""The pages in Chinese: what is compiled is what is written. That nothing is forgotten: ``make check``."""

from __future__ import annotations

import re
from gettext import GNUTranslations

import pytest
from babel.messages.pofile import read_po

from jiyi.text.sections import sections
from tools import translations
from web.show import WORDS


@pytest.mark.parametrize("language", translations.LANGUAGES)
def test_what_is_compiled_is_what_is_written_and_a_message_that_lost_a_value_is_missing(
    language: str,
) -> None:
    source, compiled = translations.files(language)
    with source.open("rb") as text, compiled.open("rb") as file:
        catalog, shown = read_po(text, locale=language), GNUTranslations(file)
    assert len(catalog) > 300, "the messages were not found"
    written = {one.id: one.string for one in catalog if isinstance(one.id, str) and one.id}
    assert {id_: shown.gettext(id_) for id_ in written} == written, "run `make setup`, which compiles it"
    if language == "zh":
        catalog["%(count)s open"].string = "待处理"
        catalog["Menu"].string = ""
        assert {message.id for message in translations.missing(catalog)} == {"%(count)s open", "Menu"}


def test_whatever_a_statement_may_be_about_has_a_word_on_pages() -> None:
    names = [re.split(r" \d", header)[0] for header in sections("engine.conversations", "attributes.txt")]
    assert list(WORDS["attributes"]) == names
