"""The pages in Chinese: nothing is forgotten, and what is compiled is what is written."""

from __future__ import annotations

from gettext import GNUTranslations

import pytest

from tools import translations

AGAIN = "run `python -m tools.translations` and translate what it names"
COMPILE = "run `make setup`, which compiles it"


@pytest.mark.parametrize("language", translations.LANGUAGES)
def test_every_message_is_translated_and_the_files_are_those_of_the_code(language: str) -> None:
    catalog = translations.current(language)
    assert len(catalog) > 300, "the messages were not found"
    assert [message.id for message in translations.missing(catalog)] == [], AGAIN
    source, compiled = translations.files(language)
    assert source.read_bytes() == translations.as_po(catalog), AGAIN
    with compiled.open("rb") as file:
        shown = GNUTranslations(file)
    written = {one.id: one.string for one in catalog if isinstance(one.id, str) and one.id}
    assert {id_: shown.gettext(id_) for id_ in written} == written, COMPILE
    if language == "zh":  # one that lost a value is missing, too
        catalog["%(count)s open"].string = "待处理"
        catalog["Menu"].string = ""
        assert {message.id for message in translations.missing(catalog)} == {"%(count)s open", "Menu"}
