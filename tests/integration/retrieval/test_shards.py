"""Several retrieval workers, each with the agents of its own queue."""

from __future__ import annotations

import re
from pathlib import Path

from jiyi import Client
from jiyi.protocol.wire.calls import retrieval_queue
from models.db.valkey import valkey
from workers import ephemeral
from workers.embedded.stack import Stack
from workers.ephemeral import environment

#: Not the one that the tests of the running service use.
OWN_DATABASE = 10
SHARDS = 2
AGENTS = [f"agent-{i}" for i in range(6)]


def test_each_agent_is_answered_by_the_worker_of_its_shard_and_by_no_other(
    database: Stack, group: str, tmp_path: Path
) -> None:
    urls = {name: getattr(database.urls, name) for name in ("redis_url", "broker_url")}
    own = {name: re.sub(r"(db|virtual_host)=0", rf"\1={OWN_DATABASE}", url) for name, url in urls.items()}
    names = ["intake", "retrieval", "retrieval-1", "embedding"]
    with (
        environment(**own, retrieval_shards=str(SHARDS)),
        ephemeral.processes(tmp_path, names),
        Client(group) as client,
    ):
        ids = [client.observe(agent_id=agent, description=f"{agent} waters the tomatoes") for agent in AGENTS]
        client.wait_for(ids, ephemeral.START_SECONDS)  # the others may still be starting
        for agent, node_id in zip(AGENTS, ids, strict=True):
            for _ in range(3):
                assert client.retrieve(agent, "tomatoes").accessed_ids == [node_id]
        shards = {retrieval_queue(group, agent, SHARDS) for agent in AGENTS}
        assert shards == {"retrieval.0", "retrieval.1"}
        assert len(list(valkey().scan_iter("jiyi:indexes:*"))) == SHARDS
