"""Erasing for good: one memory, an agent, a person. A job does it; its report proves it."""

from __future__ import annotations

from jiyi.protocol.erasure import Erasure, ErasureRequested, ErasureState
from jiyi.protocol.openapi.document import PREFIX
from jiyi.protocol.rest import Cursor, ErasureAsked, ErasurePage
from models.erasure import actions
from web.api.registry import expose
from web.api.running import Asker, Reply


def _asked(_asker: Asker, done: ErasureRequested) -> Reply:
    url = f"{PREFIX}/erasures/{done.erasure_id}"
    return Reply(ErasureAsked(erasure_id=done.erasure_id, status_url=url), {"Location": url})


expose(
    actions.request_erasure,
    "DELETE",
    "/nodes/<uuid:node_id>",
    id="erase_memory",
    tag="memories",
    answer=ErasureAsked,
    status=202,
    given=lambda parts: {"node_ids": [parts["node_id"]]},
    present=_asked,
    doc="""Erase one memory.

    The memory and everything derived from it goes, everywhere, for good. A job does it: see get_erasure for how far it is.
    """,
)
expose(
    actions.request_erasure,
    "POST",
    "/erasures",
    id="erase",
    tag="erasure",
    body=Erasure,
    answer=ErasureAsked,
    status=202,
    errors=(404,),
    present=_asked,
)


expose(actions.list_erasures, "GET", "/erasures", id="list_erasures", tag="erasure", query=Cursor, answer=ErasurePage)
expose(actions.get_erasure, "GET", "/erasures/<uuid:erasure_id>", id="get_erasure", tag="erasure", answer=ErasureState)
