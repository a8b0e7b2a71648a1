"""PDF as text, page by page."""

from __future__ import annotations

from io import BytesIO

from pypdf import PdfReader
from pypdf.errors import DependencyError, FileNotDecryptedError

from engine.stores.files.formats.limited import joined
from engine.stores.files.states import Unusable

#: Pages of one file that are read; what is longer is a collection, and better split.
MAX_PAGES = 5_000


def pdf_text(data: bytes) -> str:
    """The pages' texts, a blank line between them.

    Raises:
        Unusable: ``encrypted`` if it needs a password, ``malformed`` if it cannot be read, ``too_large`` if it has too much to read.
    """
    try:
        return _text(data)
    except (Unusable, MemoryError):
        raise
    except (DependencyError, FileNotDecryptedError):
        raise Unusable("encrypted", "the PDF is encrypted: save it without a password") from None
    except Exception as error:  # noqa: BLE001 – a damaged file makes the reader raise nearly anything
        raise Unusable("malformed", f"it cannot be read as PDF ({type(error).__name__}): save it anew") from None


def _text(data: bytes) -> str:
    reader = PdfReader(BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):  # many are locked against changes only, with an empty password
        raise Unusable("encrypted", "the PDF needs a password: save it without one")
    if len(reader.pages) > MAX_PAGES:
        raise Unusable("too_large", f"the PDF has {len(reader.pages):,} pages, more than {MAX_PAGES:,}: split it")
    texts = (page.extract_text() for page in reader.pages)
    return joined((text for text in texts if text.strip()), "\n\n")
