"""The proxy's recalls from the service, and events to it: one client a key, within a time that no chat
notices.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid5

import httpx2

from jiyi.chat.recent import Recent
from jiyi.chat.recording import messages_of, recordable, turn_event
from jiyi.client.client import AsyncClient, Client
from jiyi.client.http import CONNECT_RETRIES, AsyncHttpTransport, HttpTransport
from jiyi.client.outbox import Outbox
from jiyi.errors import InvalidEvent, JiyiError
from jiyi.protocol import limits
from jiyi.protocol.conversations import BUDGET
from jiyi.protocol.recall import InjectedContext
from jiyi.proxy.bodies import LARGE_BYTES, elsewhere
from jiyi.proxy.dialects import MemoryInjection, RequestMessage
from jiyi.proxy.keys import KnownKey
from jiyi.settings import Settings, get_settings

log = logging.getLogger(__name__)

#: Seconds that recall may take; later the request goes on without.
RECALL_SECONDS = 0.3
#: Keys with a memory; of more, that of the one that was used longest ago is closed.
MOST_KEYS = 1_000
#: Of these, keys that the service has not known yet, since it is away.
MOST_UNKNOWN = 50
#: Latest messages for which it is kept what was recalled, so that calls of tools between them see the same
#: prompt.
KEPT_RECALLS = 2_000
#: Latest turns of a key of which is kept that they were published.
KEPT_TURNS = 20_000
#: Characters of a text that take as long as what a turn takes besides.
MESSAGE_CHARS = 200
#: Latest exchanges of a key of which is kept to which session they belong.
KEPT_SESSIONS = 20_000
#: Namespace of the ids of turns: a turn is known by its words and by those before it, however much of the
#: conversation is sent again.
TURNS = UUID("0d0b9b56-7a0c-5c1e-8f63-4a7a6d2f9b11")


@dataclass(frozen=True, slots=True)
class Conversation:
    """Whose conversation a request belongs to."""

    agent_id: str
    user_id: str | None = None
    #: As the program calls it; None: it is known by what was said first.
    session_id: str | None = None
    #: Ids of what the upstream keeps of it, where a request has only what is new: the answer before, or the
    #: whole.
    previous: str = ""
    thread: str = ""

    @property
    def kept(self) -> str:
        return self.thread or self.previous

    def digest(self, *parts: str) -> str:
        """Of something that is said in this user's conversations with the agent."""
        return self.digests(parts[:-1], parts[-1:])[0]

    def digests(self, before: Sequence[str], texts: Sequence[str]) -> list[str]:
        """Of each text with all ``before`` it: what :meth:`digest` gives for these, in one pass."""
        whole = hashlib.sha256(
            "\x00".join((self.agent_id, self.user_id or "", *before)).encode(errors="surrogatepass")
        )
        result = []
        for text in texts:
            whole.update(f"\x00{text}".encode(errors="surrogatepass"))
            result.append(whole.hexdigest()[:32])
        return result


@dataclass(frozen=True, slots=True)
class _Recalled:
    """What stays the same through a conversation, and what was recalled for a message of it."""

    stable: str
    text: str
    #: Whether the service knows of it by the message's number: not before a first answer, when there is no
    #: session.
    numbered: bool = True


class KeyMemory:
    """Memory with one key. Its methods are called in the proxy's event loop.

    Args:
        asking, telling: of the service, with this key.
        max_tokens: most tokens that memories may take in a request.
        seconds: longest that recall may take.
    """

    def __init__(self, reader: AsyncClient, writer: Client, *, max_tokens: int, seconds: float) -> None:
        self._reader, self._writer = reader, writer
        #: Recall over the broker, which is nearer than over the web.
        self.nearer: AsyncClient | None = None
        self._outbox = Outbox(self._writer, "a turn", "turns")
        self._max_tokens, self._seconds = max_tokens, seconds
        #: What was recalled by digests of what the user had said.
        self._recalled: Recent[str, _Recalled] = Recent(KEPT_RECALLS)
        #: Ids of turns that were published.
        self._published: Recent[UUID, None] = Recent(KEPT_TURNS)
        #: The sessions of the latest exchanges: programs may leave out what was said first.
        self._sessions: Recent[str, str] = Recent(KEPT_SESSIONS)
        #: Session, and number of the user's messages so far, by digests of the ids under which upstreams keep
        #: conversations.
        self._threads: Recent[str, tuple[str, int]] = Recent(KEPT_SESSIONS)
        #: What is being recorded in threads, one after the other.
        self._under_way: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def recall(self, conversation: Conversation, messages: Sequence[RequestMessage]) -> MemoryInjection:
        """What belongs before the answer to the user's last message; nothing if it does not come in time."""
        users = [message for message in messages if message.role == "user"]
        if not users:
            return MemoryInjection()
        questions = [message.text for message in users]
        digests = conversation.digests((conversation.session_id or "", conversation.kept), questions)
        begun = self._thread(conversation)
        before = 0 if begun is None else begun[1]
        if users[-1].latest or digests[-1] not in self._recalled:  # else a call between those of tools
            session = self._session(conversation, messages)
            numbered = session is not None and (begun is not None or not conversation.kept)
            turn = before + len(questions) if numbered else None
            injected = await self._injected(conversation, questions[-1], session, turn)
            if injected is None:
                return MemoryInjection()
            recalled = injected.recalled
            if session is not None:
                # The service knows what there is of before this process began, and what made room.
                texts = {block.turn: block.text for block in injected.earlier}
                for turn, digest in enumerate(digests[:-1], before + 1):
                    earlier = self._recalled.get(digest) or _Recalled(injected.stable, "")
                    if earlier.numbered:
                        self._recalled[digest] = replace(earlier, text=texts.get(turn, ""))
                    elif earlier.text == recalled:
                        recalled = ""
            self._recalled[digests[-1]] = _Recalled(injected.stable, recalled, numbered)
        recalls = [self._recalled.get(digest) or _Recalled("", "") for digest in digests]
        texts = {turn: it.text for turn, it in enumerate(recalls, 1) if it.text}
        return MemoryInjection(recalls[-1].stable, texts, begun=begun is not None)

    async def _injected(
        self, conversation: Conversation, query: str, session: str | None, turn: int | None
    ) -> InjectedContext | None:
        """What the service says in time."""
        service = (self.nearer or self._reader).within(self._seconds)
        try:
            async with asyncio.timeout(self._seconds):
                return await service.conversations.context(
                    agent_id=conversation.agent_id,
                    query=query[: limits.MAX_FOCAL_CHARS],
                    user_id=conversation.user_id,
                    session_id=session,
                    max_tokens=self._max_tokens,
                    split=True,
                    turn=turn,
                )
        except TimeoutError:
            why = f"recall took longer than {self._seconds:g} s"
        except JiyiError as error:
            why = str(error)
        except ValueError as error:  # an answer of another version, whose words are nothing for a log
            why = f"the service's answer is a {type(error).__name__}"
        log.warning("the request goes on without memories: %s", why)
        return None

    def record(
        self, conversation: Conversation, messages: Sequence[RequestMessage], answer: str, answer_id: str = ""
    ) -> None:
        """Have what was said, and the answer, recorded once. Never raises, never waits."""
        if answer.strip():
            messages = [*messages, RequestMessage("assistant", answer.strip(), None, ())]
        session = self._session(conversation, messages)
        if session is None:
            return
        for exchange in _exchanges(conversation, messages):
            self._sessions[exchange] = session
        begun = self._thread(conversation)
        turns = sum(message.role == "user" for message in messages) + (0 if begun is None else begun[1])
        for answer_ref in filter(None, (answer_id, conversation.thread)):
            self._threads[conversation.digest(answer_ref)] = (session, turns)
        publish = partial(self._publish, conversation, session, messages, answer_id)
        if (
            not self._under_way
            and sum(MESSAGE_CHARS + len(message.text) for message in messages) < LARGE_BYTES
        ):
            publish()
            return
        task = asyncio.get_running_loop().create_task(self._publish_in_turn(publish))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _publish_in_turn(self, publish: Callable[[], None]) -> None:
        async with self._turn:
            await elsewhere(LARGE_BYTES, publish)

    def _publish(
        self, conversation: Conversation, session: str, messages: Sequence[RequestMessage], answer_id: str
    ) -> None:
        """Publish what is new. One after the other: it knows what was published."""
        user = () if conversation.user_id is None else (conversation.user_id,)
        whose = (self._writer.group, conversation.agent_id, session, *user)
        #: Of what is new in a conversation that the upstream keeps.
        place = conversation.previous or (answer_id if conversation.thread else "")
        before, now = "", datetime.now(UTC)
        times: Counter[tuple[str, str, str]] = Counter()
        events: dict[UUID, Any] = {}
        try:
            turns = recordable(messages_of({"role": role, "text": text} for role, text, *_ in messages))
            for number, message in enumerate(turns):
                this = (before, message.role, message.text.strip())
                again = str(times[this] or "")  # the same, said once more after the same
                event_id = uuid5(TURNS, conversation.digest(session, *this, *filter(None, (place, again))))
                times[this] += 1
                before = this[-1]
                if number == 1 and event_id in self._published:
                    events.clear()  # the first was published as well, after others that are left out now
                if event_id not in self._published:
                    events[event_id] = turn_event(whose, message, event_id, now)
        except InvalidEvent as error:
            log.warning("the turn was not stored: %s", error)
        if events:
            self._outbox.put(*events.values())
            self._published.update(dict.fromkeys(events))

    def _session(self, conversation: Conversation, messages: Sequence[RequestMessage]) -> str | None:
        """The session: as the program calls it, else the upstream's, else by an exchange."""
        if conversation.session_id is not None:
            return conversation.session_id
        if conversation.kept:
            begun = self._thread(conversation)
            return f"proxy-{conversation.digest(conversation.kept)}" if begun is None else begun[0]
        exchanges = _exchanges(conversation, messages)
        session = next(
            (self._sessions[exchange] for exchange in reversed(exchanges) if exchange in self._sessions), None
        )
        return session or (f"proxy-{exchanges[0]}" if exchanges else None)

    def _thread(self, conversation: Conversation) -> tuple[str, int] | None:
        """What is known of a conversation that the upstream keeps."""
        return self._threads.get(conversation.digest(conversation.kept)) if conversation.kept else None

    async def close(self, threads: Executor | None = None) -> None:
        """Publish the turns that wait."""
        await asyncio.gather(*self._under_way)
        await asyncio.get_running_loop().run_in_executor(threads, self._outbox.close)
        if self.nearer is not None:
            await self.nearer.close()


class Memories:
    """Memory by key, of those that were used last. All reach the service over the same connections.

    Args:
        url: of the service.
        max_tokens: most tokens that memories may take in a request.
        seconds: longest that recall may take.
        broker: where broker and Valkey are, if recall goes there.
    """

    def __init__(
        self,
        url: str,
        *,
        max_tokens: int = BUDGET,
        seconds: float = RECALL_SECONDS,
        broker: Settings | None = None,
    ) -> None:
        self._url, self._max_tokens, self._seconds, self._broker = url, max_tokens, seconds, broker
        connections = httpx2.Limits(max_connections=MOST_KEYS, max_keepalive_connections=100)
        tries: Any = {"limits": connections, "retries": CONNECT_RETRIES}
        self._reader = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(**tries), follow_redirects=False
        )
        self._writer = httpx2.Client(transport=httpx2.HTTPTransport(**tries), follow_redirects=False)
        self._keys: OrderedDict[str, KeyMemory] = OrderedDict()
        self._unknown: dict[str, None] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, key: str, known_key: KnownKey | None) -> KeyMemory:
        """Memory with a key that the service knows (``known_key``), or cannot be asked about."""
        memory = self._keys.get(key)
        if known_key is not None:
            self._unknown.pop(key, None)
        if memory is None:
            memory = self._keys[key] = self._made(key)
            if known_key is None:
                self._unknown[key] = None
            for memories, most in ((self._unknown, MOST_UNKNOWN), (self._keys, MOST_KEYS)):
                if len(memories) > most:
                    self.drop(next(iter(memories)))
        if self._broker is not None and memory.nearer is None and known_key is not None and known_key.group:
            memory.nearer = AsyncClient(known_key.group, settings=self._broker, key=key, url="")
        self._keys.move_to_end(key)
        return memory

    def drop(self, key: str) -> None:
        """Have the memory with a key closed, if there is one."""
        self._unknown.pop(key, None)
        if (memory := self._keys.pop(key, None)) is not None:
            closing = asyncio.get_running_loop().create_task(memory.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Publish what waits, of all keys, and release the connections."""
        with ThreadPoolExecutor(MOST_KEYS) as threads:  # each may take seconds: all at the same time
            await asyncio.gather(*self._closing, *(memory.close(threads) for memory in self._keys.values()))
        await self._reader.aclose()
        await asyncio.to_thread(self._writer.close)

    def _made(self, key: str) -> KeyMemory:
        settings = get_settings()
        reader = AsyncClient(transport=AsyncHttpTransport(self._url, settings, None, key, self._reader))
        writer = Client(transport=HttpTransport(self._url, settings, None, key, self._writer))
        return KeyMemory(reader, writer, max_tokens=self._max_tokens, seconds=self._seconds)


def _exchanges(conversation: Conversation, messages: Sequence[RequestMessage]) -> list[str]:
    """Digests of what was answered to what, oldest first."""
    return [
        conversation.digest(question.text, answer.text)
        for question, answer in pairwise(messages)
        if (question.role, answer.role) == ("user", "assistant")
    ]
