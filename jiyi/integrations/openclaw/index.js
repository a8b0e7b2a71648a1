// OpenClaw on Jiyi: a plug-in (`jiyi connect openclaw`, docs/integrations.md). Beside it is jiyi.json with the service's address, the key,
// and whose memory it is. Before an answer, what belongs to the message is recalled; afterwards both are published in the background.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

// Milliseconds that recall may take: later an answer goes on without. And that a publication may, which nobody waits for.
const RECALL_MS = Number(process.env.JIYI_RECALL_MS ?? 1_000);
const TELL_MS = 10_000;
// Events that wait while the service is away; of more, the oldest go. In one publication are at most so many.
const MOST_WAITING = 1_000;
const BATCH = 50;
// Milliseconds between two tries: at first, and at most.
const PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
// Statuses of what is wrong in itself: to send it again is of no use.
const REFUSED = new Set([400, 409, 413, 422]);
// Characters of a question, and of what was said; runs of which the question is remembered until they end.
const MAX_QUERY = 4_000;
const MAX_CHARS = 20_000;
const MOST_RUNS = 100;
// Ends of a session; others, such as a restart, interrupt it.
const ENDS = new Set(["new", "reset", "idle", "daily", "deleted"]);

class Refused extends Error {
  constructor(status, said) {
    super(`${status} ${said.slice(0, 300)}`);
    this.status = status;
  }
}

function config() {
  return JSON.parse(readFileSync(new URL("./jiyi.json", import.meta.url), "utf8"));
}

async function post(path, body, milliseconds, { url, key } = config()) {
  const response = await fetch(`${url.replace(/\/+$/, "")}/api/v1${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(milliseconds),
  });
  if (!response.ok) throw new Refused(response.status, await response.text());
  return response.json();
}

/** The beginning of a text, without what the database cannot hold: NUL, half of a character of two units, as of an emoji that is cut. */
const cut = (text, most) => text.slice(0, most).replace(/[\p{Surrogate}\0]/gu, "");

/** Days are those of this machine's clock, which is the user's. */
const tz = Intl.DateTimeFormat().resolvedOptions().timeZone;
const whose = (ctx) => (ctx.senderId ? { user_id: String(ctx.senderId) } : {});

async function recall(query, ctx) {
  if (!query.trim()) return "";
  const asked = { agent_id: config().agent, query: cut(query, MAX_QUERY), tz, ...whose(ctx) };
  return (await post("/context", asked, RECALL_MS)).text;
}

function event(type, payload, ctx) {
  return {
    type,
    event_id: randomUUID(),
    occurred_at: new Date().toISOString(),
    tz,
    agent_id: config().agent,
    session_id: ctx.sessionKey ?? ctx.sessionId,
    payload: { ...payload, ...whose(ctx) },
  };
}

/** What a message says, without calls of tools and what the model thought. */
function text(message) {
  const { content } = message ?? {};
  if (typeof content === "string") return content.trim();
  const blocks = Array.isArray(content) ? content : [];
  return blocks.flatMap((block) => (block?.type === "text" ? [block.text] : [])).join("\n").trim();
}

/** Sub-agents, heartbeats and scheduled prompts are not recorded: nobody said that. */
function said(ctx) {
  return (ctx.trigger ?? "user") === "user" && !/:(subagent|cron|acp):/.test(ctx.sessionKey ?? "");
}

/** Publishes in the background, and again until the service takes it: each event under the key that it was told under. */
class Outbox {
  waiting = []; // of { event, under }
  #log;
  #running;

  constructor(log) {
    this.#log = log;
  }

  enqueue(...events) {
    const under = config();
    this.waiting.push(...events.map((event) => ({ event, under })));
    if (this.waiting.length > MOST_WAITING) {
      this.#log.warn("jiyi: the service has been away for long; what was said first is not remembered");
      this.waiting.splice(0, this.waiting.length - MOST_WAITING);
    }
    this.#running ??= this.#publish().finally(() => (this.#running = undefined));
    return this.#running;
  }

  async #publish() {
    let [wait, size] = [PAUSE_MS, BATCH];
    while (this.waiting.length) {
      const { under } = this.waiting[0];
      const others = this.waiting.findIndex((told) => told.under.key !== under.key);
      const batch = this.waiting.slice(0, others < 0 ? size : Math.min(size, others));
      let current = true;
      try {
        const now = config();
        current = now.key === under.key; // another key may be of another group
        await post("/events", { events: batch.map((told) => told.event) }, TELL_MS, current ? now : under);
      } catch (error) {
        if (!current) {
          this.#log.warn(`jiyi: ${batch.length} events are not published: they belong to a key that is no longer set: ${error.message}`);
        } else if (!REFUSED.has(error.status)) {
          this.#log.warn(`jiyi: ${this.waiting.length} events wait: ${error.message}`);
          await pause(wait, undefined, { ref: false });
          wait = Math.min(2 * wait, LONGEST_PAUSE_MS);
          continue;
        } else if (batch.length > 1) {
          size = 1; // events are stored together or not at all: one by one, the wrong one shows
          continue;
        } else {
          this.#log.warn(`jiyi: the service refuses an event, which is left out: ${error.message}`);
          size = BATCH;
        }
      }
      wait = PAUSE_MS;
      this.waiting = this.waiting.filter((one) => !batch.includes(one));
    }
  }
}

function tool(name, description, parameter, about, run) {
  const parameters = { type: "object", properties: { [parameter]: { type: "string", description: about } }, required: [parameter] };
  return {
    name,
    label: name,
    description,
    parameters,
    async execute(_id, given) {
      const answer = await run(String(given[parameter] ?? ""));
      return { content: [{ type: "text", text: answer }], details: {} };
    },
  };
}

export default {
  id: "jiyi",
  name: "Jiyi",
  description: "A memory service of your own",
  register(api) {
    const outbox = new Outbox(api.logger);
    const asked = new Map();

    api.on("before_prompt_build", async (turn, ctx) => {
      const query = turn.currentUserMessage ?? turn.prompt ?? "";
      if (ctx.runId) {
        asked.set(ctx.runId, query);
        if (asked.size > MOST_RUNS) asked.delete(asked.keys().next().value);
      }
      try {
        const known = await recall(query, ctx);
        return known ? { prependContext: known } : undefined;
      } catch (error) {
        api.logger.warn(`jiyi: nothing is recalled: ${error.message}`);
        return undefined;
      }
    });

    api.on("agent_end", async (turn, ctx) => {
      const question = asked.get(ctx.runId);
      asked.delete(ctx.runId);
      if (!turn.success || !said(ctx)) return;
      const last = (role) => text(turn.messages.findLast((message) => message?.role === role));
      try {
        const turns = [["user", question ?? last("user")], ["assistant", last("assistant")]];
        const events = turns
          .filter(([, words]) => words.trim())
          .map(([role, words]) => event("turn.recorded", { role, text: cut(words.trim(), MAX_CHARS) }, ctx));
        void outbox.enqueue(...events);
      } catch (error) {
        api.logger.warn(`jiyi: what was said is not remembered: ${error.message}`);
      }
    });

    api.on("session_end", async (end, ctx) => {
      const session = { ...ctx, sessionKey: end.sessionKey ?? ctx.sessionKey, sessionId: end.sessionId };
      if (ENDS.has(end.reason) && said(session)) void outbox.enqueue(event("session.ended", {}, session));
    });

    api.registerTool((ctx) => {
      const from = { sessionKey: ctx.sessionKey, senderId: ctx.requesterSenderId };
      return [
        tool(
          "jiyi_recall",
          "Search long-term memory for what was said or learned in earlier conversations.",
          "query",
          "What to look for, as a question or keywords.",
          async (query) => (await recall(query, from)) || "Nothing is known of that.",
        ),
        tool(
          "jiyi_remember",
          "Keep one fact in long-term memory. What is said in the conversation is remembered without it.",
          "text",
          "The fact, in one sentence that can be understood on its own.",
          async (fact) => {
            const told = event("memory.observed", { description: cut(fact, MAX_CHARS), origin: "assistant" }, from);
            await post("/events", { events: [told] }, TELL_MS);
            return "Remembered.";
          },
        ),
      ];
    }, { names: ["jiyi_recall", "jiyi_remember"] });
  },
};
