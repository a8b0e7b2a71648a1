"""Makes a site of the documents as they lie in the checkout (a hook of MkDocs): the READMEs are its first
pages, and links to files outside ``docs/`` go to the repository, where its address is given
(``REPOSITORY_URL``), and are plain text elsewhere.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Code, in which nothing is a link; or a link that is no address of the web and no place on its own page:
#: text, path, place.
LINK = re.compile(
    r"(?:^```.*?^```|`[^`\n]{1,300}`)|\[([^\]\n]{1,300})\]\((?!https?:|mailto:|#)([^)#\s]{1,300})(#[^)\s]{1,200})?\)",
    re.DOTALL | re.MULTILINE,
)
BRANCH = "main"
#: The first pages, in English and Chinese: file of the checkout → page of the site.
FIRST = {"README.md": "index.md", "README.zh.md": "index.zh.md"}


def for_the_site(markdown: str, folder: str, repository: str | None) -> str:
    """``markdown`` of a file in ``folder`` (of the checkout; empty for its root), with its links as the site
    has them.
    """

    def link(match: re.Match[str]) -> str:
        text, target, place = match[1], match[2], match[3] or ""
        if target is None:
            return match[0]
        path = PurePosixPath((ROOT / folder / target).resolve().relative_to(ROOT))
        if path.parts[:1] == ("docs",):
            return f"[{text}]({path.relative_to('docs')}{place})"
        if str(path) in FIRST:
            return f"[{text}]({FIRST[str(path)]}{place})"
        return f"[{text}]({repository.rstrip('/')}/blob/{BRANCH}/{path})" if repository else text

    return LINK.sub(link, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Adds the first pages."""
    from mkdocs.structure.files import File  # only where the site is built

    for source, page in FIRST.items():
        files.append(
            File.generated(
                config, page, content=for_the_site((ROOT / source).read_text("utf-8"), "", config.repo_url)
            )
        )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links of a page of ``docs/``; those of the first pages are the site's already."""
    return (
        markdown if page.file.src_uri in FIRST.values() else for_the_site(markdown, "docs", config.repo_url)
    )
