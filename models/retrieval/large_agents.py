"""Candidates of an agent that is too large for an index in memory: found by PostgreSQL, scored like any
others.

Those nearest to the question, those with its rarer words, those of the days that it names, the newest, the
most important, and what was said right before and after the best of them, all under the request's filters.
They are put into an index of their own, which lives as long as the request; document frequencies are those of
the whole agent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, LiteralString
from uuid import UUID

import numpy as np
import psycopg
from psycopg import sql
from sqlalchemy import Connection

from engine.retrieval.corpus import NEIGHBOUR_SHARES
from engine.times.past import Span
from jiyi.errors import ServiceError
from jiyi.protocol.wire.vectors import Float32
from models.db.connection import driver, read_beside
from models.db.spans import statement_span
from models.memory import filters
from models.memory.filters import FilterValues
from models.retrieval.agent_index import AgentIndex, IndexKey
from models.retrieval.enlargement import ALL_TERMS, index_name, indexed_type
from models.retrieval.index_rows import Past

#: How many of each kind become candidates, at least as many as are asked for. More find more, and take
#: longer: of a million made-up memories half as many of the nearest and of those with the words find a
#: quarter less of the exact answer, of the others nothing less.
NEAREST, WITH_WORDS, NEWEST, MOST_IMPORTANT = 400, 400, 100, 100
#: Of the days that a question names so many become candidates, the nearest of so many of the newest of each.
OF_DAYS, NEWEST_OF_DAYS = 200, 4_000
#: So many of the nearest, and of those with the words, add their neighbours.
WITH_NEIGHBOURS = 25
#: A word in more texts than this distinguishes little, and takes long to look up.
MAX_TEXTS_OF_WORDS = 20_000
#: How far the approximate search goes before it gives up on the filters: rows, and times ``work_mem``.
MAX_SCAN_TUPLES, SCAN_MEM_MULTIPLIER = 200_000, 4
#: pgvector's upper bound.
MAX_EF_SEARCH = 1_000

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CandidateSearch:
    """One text to look for: its vector, where there is one, its tokens, and the days that it names."""

    vector: Float32 | None
    tokens: Sequence[str]
    days: Sequence[Span] = ()


def candidates(
    connection: Connection,
    key: IndexKey,
    node_count: int,
    filter_values: FilterValues,
    searches: Iterable[CandidateSearch],
    top_k: int,
    past: Past | None = None,
) -> AgentIndex:
    """An index of the candidates for all searches; the agent has ``node_count`` memories."""
    searches = list(searches)
    searching = partial(_searching, key=key, node_count=node_count, filter_values=filter_values, top_k=top_k)

    def having_words(another: Connection) -> tuple[list[list[UUID]], Mapping[str, int]]:
        with searching(another) as search:
            return [search.with_words(text.tokens) for text in searches], search.frequencies

    words = read_beside(having_words, connection)
    with searching(connection) as search:
        nearest = [search.nearest(text.vector) for text in searches]
        of_days = [search.of_days(text.days, text.vector) for text in searches]
        newest = search.first("n.node_count DESC", max(NEWEST, top_k))
        most_important = search.first("coalesce(n.poignancy, 0) DESC", max(MOST_IMPORTANT, top_k))
        with_words, frequencies = words()
        search.frequencies |= frequencies
        around = search.around(
            [node_id for node_ids in (*nearest, *with_words) for node_id in node_ids[:WITH_NEIGHBOURS]]
        )
        index = AgentIndex(key, search)
        index.load(
            connection, {*chain(*nearest, *with_words, *of_days), *newest, *most_important, *around}, past
        )
        return index


@contextmanager
def _searching(
    connection: Connection, key: IndexKey, node_count: int, filter_values: FilterValues, top_k: int
) -> Iterator[_Search]:
    raw = driver(connection)
    with (
        statement_span("SELECT … FROM memory_nodes"),
        raw.transaction(),
    ):  # settings of the search hold as long
        yield _Search(raw, key, node_count, filter_values, top_k)


class _Search:
    """The ways to find candidates, each under the same filters; and the statistics of all of the agent's
    texts.
    """

    def __init__(
        self, raw: psycopg.Connection, key: IndexKey, node_count: int, filter_values: FilterValues, top_k: int
    ) -> None:
        self._raw, self._key, self._top_k = raw, key, top_k
        self._where, self._parameters = _conditions(key, filter_values)
        #: In how many texts each term of the query is.
        self.frequencies: dict[str, int] = {}
        self.texts, self.tokens = node_count, self.containing([ALL_TERMS])[ALL_TERMS]

    def first(self, order: LiteralString, limit: int) -> list[UUID]:
        return self._ids(sql.SQL(""), sql.SQL(order), limit)

    def nearest(self, vector: Float32 | None) -> list[UUID]:
        """By cosine; one by one where no index knows the model's vectors, or where it gives up too early."""
        if vector is None:
            return []
        limit = max(NEAREST, self._top_k)
        # First what has its vector beside it: each statement sees what is committed by then, and what is
        # folded between the two is found by both; the other way round it would be found by neither.
        beside = self._not_folded_yet(vector, limit)
        kind = indexed_type(vector.size)
        if kind is not None and self._index_is_ready(vector.size, limit):
            nearest = self._by_distance(
                vector / np.linalg.norm(vector), "l2_normalize(n.embedding)", kind, limit
            )
            if len(nearest) == limit:
                return nearest + beside
        return self._by_distance(vector, "n.embedding", "vector", limit) + beside

    def with_words(self, tokens: Sequence[str]) -> list[UUID]:
        """Those with the rarer words, the highest sum of rarities first."""
        weights = self._rare(tokens)
        if not weights:
            return []
        limit = max(WITH_WORDS, self._top_k)
        parameters = {"terms": list(weights), "weights": list(weights.values()), "limit": limit}
        return self._first_column(_WITH_WORDS.format(self._where), parameters)

    def of_days(self, days: Sequence[Span], vector: Float32 | None) -> list[UUID]:
        """Those of some days: the nearest, then the newest of what has no vector to compare."""
        if not days:
            return []
        starts, ends = zip(*days, strict=True)
        comparable = sql.SQL("AND false") if vector is None else self._comparable(vector)
        looked_at = {
            "starts": list(starts),
            "ends": list(ends),
            "looked_at": NEWEST_OF_DAYS,
            "limit": max(OF_DAYS, self._top_k),
        }
        with self._raw.cursor(binary=True) as cursor, _in_order_of_an_index(cursor):
            parameters = self._parameters | looked_at | {"vector": vector}
            return [
                row[0]
                for row in cursor.execute(_OF_DAYS.format(comparable, self._where), parameters, prepare=False)
            ]

    def around(self, node_ids: Sequence[UUID]) -> list[UUID]:
        """What came right before and after in the same session, or without one."""
        furthest = len(NEIGHBOUR_SHARES)
        distances = list(range(-furthest, furthest + 1))
        parameters = {"ids": list(node_ids), "distances": distances}
        return self._first_column(_AROUND.format(self._where), parameters)

    def containing(self, tokens: Iterable[str]) -> Mapping[str, int]:
        """In how many of the agent's texts each term occurs; ``ALL_TERMS`` gives all occurrences of all."""
        unknown = [token for token in tokens if token not in self.frequencies]
        if unknown:
            self.frequencies.update(dict.fromkeys(unknown, 0))
            with self._raw.cursor(binary=True) as cursor:
                self.frequencies.update(
                    cursor.execute(_FREQUENCIES, self._parameters | {"terms": unknown}).fetchall()
                )
        return self.frequencies

    def _rare(self, tokens: Sequence[str]) -> dict[str, float]:
        """Rarity of each of the rarest tokens that occur, up to ``MAX_TEXTS_OF_WORDS`` texts together."""
        frequencies = self.containing(tokens)
        rarities, texts = dict[str, float](), 0
        for term in sorted(
            {term for term in tokens if frequencies[term]}, key=lambda term: (frequencies[term], term)
        ):
            texts += frequencies[term]
            if texts > MAX_TEXTS_OF_WORDS:
                break
            rarities[term] = 1 / math.log2(1 + frequencies[term])
        return rarities

    def _index_is_ready(self, dimensions: int, limit: int) -> bool:
        """Whether there is an index of the model's vectors of this size; if so, its settings are made and
        read back.
        """
        settings = {
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(MAX_SCAN_TUPLES),
            "hnsw.scan_mem_multiplier": str(SCAN_MEM_MULTIPLIER),
            "hnsw.ef_search": str(min(limit, MAX_EF_SEARCH)),
        }
        with self._raw.cursor() as cursor:
            if not cursor.execute(_EXISTS, {"name": index_name(self._key.model, dimensions)}).fetchone():
                return False
            # Loads the extension, without which a misspelt setting is accepted.
            cursor.execute("SELECT '[1]'::vector")
            is_set = cursor.execute(
                _SET, {"names": list(settings), "values": list(settings.values())}
            ).fetchall()
        if dict(is_set) != settings:
            raise ServiceError(f"pgvector did not take its settings {settings}: is it at least 0.8?")
        return True

    def _by_distance(
        self, vector: Float32, column: LiteralString, kind: LiteralString, limit: int
    ) -> list[UUID]:
        distance = sql.SQL("(" + column + "::" + kind + ") <=> %(vector)s::" + kind)
        return self._ids(self._comparable(vector), distance, limit, vector=vector)

    def _comparable(self, vector: Float32) -> sql.Composed:
        return _COMPARABLE.format(sql.Literal(self._key.model), sql.Literal(vector.size))

    def _not_folded_yet(self, vector: Float32, limit: int) -> list[UUID]:
        """Of those whose vector is still beside them, while a move to another model comes to its end."""
        parameters = {"model": self._key.model, "vector": vector, "limit": limit}
        return self._first_column(_BESIDE.format(self._where), parameters)

    def _first_column(self, query: sql.Composed, parameters: Parameters) -> list[UUID]:
        with self._raw.cursor(binary=True) as cursor:
            return [row[0] for row in cursor.execute(query, self._parameters | parameters)]

    def _ids(self, more: sql.Composable, order: sql.Composable, limit: int, **parameters: Any) -> list[UUID]:
        query = _IDS.format(self._where, more, order)
        with self._raw.cursor(binary=True) as cursor, _in_order_of_an_index(cursor):
            # Planned again each time: a partial index (of one model, of large agents) fits known values only.
            cursor.execute(query, self._parameters | parameters | {"limit": limit}, prepare=False)
            return [row[0] for row in cursor]


@contextmanager
def _in_order_of_an_index(cursor: psycopg.Cursor[Any]) -> Iterator[None]:
    """Within, the first rows are taken from an index in their order, and not sorted out of all.

    What conditions and policies let through is guessed far too low (37 rows of a million).
    """
    cursor.execute(
        "SELECT set_config('enable_sort', 'off', true), set_config('max_parallel_workers_per_gather', '0',"
        " true)"
    )
    yield
    cursor.execute("SET LOCAL enable_sort TO DEFAULT")


def _conditions(key: IndexKey, filter_values: FilterValues) -> tuple[sql.Composed, Parameters]:
    """The conditions of ``AgentIndex.select``, in SQL."""
    passing = filters.conditions(filter_values)
    where: LiteralString = f"n.group_id = %(group)s AND n.agent_id = %(agent)s AND n.large AND {passing}"
    if "keywords" in filter_values:  # by their index, see migration 0008
        where += " AND n.node_id IN (SELECT jiyi_with_keywords(%(group)s, %(agent)s, %(keywords)s))"
    return sql.Composed([sql.SQL(where)]), {**filter_values, "group": key.group_id, "agent": key.agent_id}


_IDS = sql.SQL("SELECT n.node_id FROM memory_nodes n WHERE {} {} ORDER BY {} LIMIT %(limit)s")
_BESIDE = sql.SQL("""
    SELECT n.node_id FROM next_vectors v JOIN memory_nodes n USING (node_id, group_id)
    WHERE v.model = %(model)s AND vector_dims(v.embedding) = vector_dims(%(vector)s) AND {}
    ORDER BY v.embedding <=> %(vector)s LIMIT %(limit)s
""")
_OF_DAYS = sql.SQL("""
    WITH newest AS MATERIALIZED (
        SELECT of_day.* FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS days(first, past)
        CROSS JOIN LATERAL (
            SELECT n.node_id, n.created_at, CASE WHEN true {} THEN n.embedding END AS embedding
            FROM memory_nodes n
            WHERE {} AND n.created_at >= days.first AND n.created_at < days.past
            ORDER BY n.created_at DESC LIMIT %(looked_at)s
        ) AS of_day
    )
    SELECT node_id FROM newest ORDER BY embedding <=> %(vector)s::vector, created_at DESC LIMIT %(limit)s
""")
_COMPARABLE = sql.SQL("AND n.embedding_model = {} AND vector_dims(n.embedding) = {}")
# The words' index is asked by a function of the tables' owner (see migrations 0008 and 0045). What it has
# found is looked at one by one, the best first, until enough pass the filters.
_WITH_WORDS = sql.SQL("""
    SELECT found.node_id FROM (
        SELECT * FROM jiyi_ranked_by_terms(%(group)s, %(agent)s, %(terms)s, %(weights)s) WITH ORDINALITY AS
        f(node_id, place) ORDER BY place
    ) AS found CROSS JOIN LATERAL (SELECT FROM memory_nodes n WHERE n.node_id = found.node_id
    AND {} OFFSET 0) AS passing
    ORDER BY found.place LIMIT %(limit)s
""")
#: Under row-level security an index is searched by known values, and not by sums of another row's columns:
#: addition is not leakproof.
_AROUND = sql.SQL("""
    WITH places AS MATERIALIZED (
        SELECT o.session_id, o.node_count + away AS place FROM memory_nodes o CROSS
        JOIN unnest(%(distances)s::int[]) AS away
        WHERE o.group_id = %(group)s AND o.node_id = ANY(%(ids)s)
    )
    SELECT n.node_id FROM memory_nodes n
    WHERE {} AND n.node_count = ANY ((SELECT array_agg(place) FROM places)::int[])
        AND EXISTS (SELECT 1 FROM places p WHERE p.place = n.node_count AND p.session_id IS NOT DISTINCT
        FROM n.session_id)
""")
_FREQUENCIES = """
    SELECT term, sum(texts)::bigint FROM term_frequencies
    WHERE group_id = %(group)s AND agent_id = %(agent)s AND term = ANY(%(terms)s) GROUP BY term
"""
_SET = """
    SELECT name, set_config(name, value, true) FROM unnest(%(names)s::text[], %(values)s::text[]) AS s(name,
    value)
"""
_EXISTS = "SELECT 1 FROM pg_class WHERE relname = %(name)s AND relnamespace = current_schema()::regnamespace"
