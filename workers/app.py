"""The Celery app: its queues, its settings with their reasons, its tasks."""

from __future__ import annotations

from celery import Celery
from kombu import Exchange, Queue

from engine import operations
from engine.heads import local
from engine.providers import embedder_specs
from jiyi.protocol import limits
from jiyi.protocol.wire.broker import AMQP_TIMEOUTS
from jiyi.settings import get_settings
from models import wiring
from models.queue.broker_queues import task_queues
from tasks import jobs
from tasks.framework.jobs import beat_schedule
from tasks.operations import maintenance
from workers import gc_tuning, worker_setup
from workers.intake.sources import limit_kombu

settings = get_settings()
limit_kombu(limits.MAX_MESSAGE_BYTES)
local.learned()  # weights that cannot be used are better refused now than by each task
embedder_specs.configured_spec(settings)  # an embedder that nobody knows is better said now than by each task

#: Seconds after which the broker hands a dead worker's task to another one; and below it those that a task
#: may run, or a running one would be handed on, too.
VISIBILITY_SECONDS, TASK_TIME_LIMIT = 300, 120

TRANSPORT_OPTIONS = {
    "visibility_timeout": VISIBILITY_SECONDS,
    # How often a worker looks for tasks of a dead one. The default of kombu is minutes.
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "unacked_mutex_expire": 10,  # seconds that a worker which died while looking keeps the others from it
    # A half-open connection must not make a worker deaf.
    "socket_timeout": 30,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 15,
    **AMQP_TIMEOUTS,
}

assert wiring.HANDLERS  # imported by every process that stores events or does work
assert jobs.JOB_TASKS  # beat's schedule is made of what they register
app = Celery("jiyi", broker=settings.need("broker_url"), amqp=worker_setup.SoonAgain)
app.set_default()  # for every thread: the current app is otherwise one thread's own
app.conf.update(
    include=["tasks.wiring"],
    task_queues=[Queue(name, Exchange(name, type="direct"), routing_key=name) for name in task_queues()],
    task_create_missing_queues=False,  # a typo in a queue name is an error, not a queue that nobody reads
    task_default_queue="upkeep",  # who sends a task elsewhere says so
    task_acks_late=True,  # a task whose worker dies is delivered again
    # … also when only the pool's child dies; attempts are counted in pending_work
    task_reject_on_worker_lost=True,
    task_ignore_result=True,  # nobody asks for results: they are in the database; twice the throughput
    task_serializer="json",
    accept_content=["json"],
    task_time_limit=TASK_TIME_LIMIT,
    worker_prefetch_multiplier=1,  # a task waits in the queue, where any worker can take it
    worker_cancel_long_running_tasks_on_connection_loss=True,
    worker_soft_shutdown_timeout=5,
    worker_consumer="workers.worker_setup:Consumer",  # bounds messages before they are parsed
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    # a broadcast of "shutdown" by anyone with the broker's address ends all workers
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    # a Valkey without memory or disk answers with errors: workers wait, and go on
    broker_channel_error_retry=True,
    broker_connection_max_retries=None,  # a broker may stay away for long; workers wait
    broker_transport_options=TRANSPORT_OPTIONS,
    timezone="UTC",
    beat_scheduler="workers.beat:CanaryScheduler",  # ticks are rows in job_ticks, so no file has to survive
    beat_schedule=beat_schedule(settings) | maintenance.canary_schedule(),
)


@app.on_after_finalize.connect
def _only_own_tasks(sender: Celery, **_: object) -> None:
    """Celery's built-in tasks run other tasks, or themselves: we send none, and others' are ignored."""
    for name in [name for name in sender.tasks if name.startswith("celery.")]:
        sender.tasks.unregister(name)


operations.install()
gc_tuning.install()
worker_setup.install()
