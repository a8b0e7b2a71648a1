// @ts-check
/**
 * Memory for the AI SDK (package `ai`): a middleware around any language model.
 *
 *   import { memory } from "./memory.mjs";
 *   const model = wrapLanguageModel({ model: openai("gpt-5"), middleware: memory({ key, agent: "assistant", user: "mia", session: "monday" }) });
 *   await generateText({ model, prompt: "What am I allergic to?" });
 *
 * What is recalled for the user's last message stands before it; the message and the answer are recorded. While the service is away, answers
 * go on without memory, and a warning says so.
 */

/** Milliseconds that recall may take, and that recording may, which nobody waits for. */
const RECALL_MS = 1_000, RECORD_MS = 10_000;
/** Characters of a question, and of what was said. */
const MAX_QUERY = 4_000, MAX_CHARS = 20_000;

/**
 * The beginning of a text, without what cannot be stored: NUL, half of a character of two units, as of an emoji that is cut.
 * @param {string} text @param {number} most
 */
const cut = (text, most) => text.slice(0, most).replace(/[\p{Surrogate}\0]/gu, "");

/**
 * @param {{ url?: string, key: string, agent: string, user?: string, session: string, recallMs?: number }} options
 * @returns {import("ai").LanguageModelMiddleware & { recorded: () => Promise<void> }} `recorded` waits for what is being recorded.
 */
export function memory({ url = "http://127.0.0.1:8765", key, agent, user, session, recallMs = RECALL_MS }) {
  const whose = user ? { user_id: user } : {};
  let recording = Promise.resolve();
  /** @type {{ asked: string, known: string }} What was recalled last: the steps of one answer ask the same. */
  let last = { asked: "", known: "" };

  /** @param {string} path @param {object} body @param {number} milliseconds */
  async function post(path, body, milliseconds) {
    const response = await fetch(`${url.replace(/\/+$/, "")}/api/v1${path}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(milliseconds),
    });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    return response.json();
  }

  /** @param {string} asked */
  async function recall(asked) {
    if (!asked.trim() || asked === last.asked) return asked.trim() ? last.known : "";
    try {
      const { text } = await post("/context", { agent_id: agent, query: cut(asked, MAX_QUERY), ...whose }, recallMs);
      last = { asked, known: text };
      return text;
    } catch (error) {
      console.warn(`jiyi: nothing is recalled: ${error}`);
      return "";
    }
  }

  /** In order, one after the other. @param {"user" | "assistant"} role @param {string} text */
  function record(role, text) {
    if (!text.trim()) return;
    const event = {
      type: "turn.recorded",
      event_id: crypto.randomUUID(),
      occurred_at: new Date().toISOString(),
      agent_id: agent,
      session_id: session,
      payload: { role, text: cut(text.trim(), MAX_CHARS), ...whose },
    };
    recording = recording
      .then(() => post("/events", { events: [event] }, RECORD_MS))
      .catch((error) => console.warn(`jiyi: what was said is not remembered: ${error}`));
  }

  /** @param {ReadonlyArray<{ type: string, text?: string }>} parts */
  const textOf = (parts) => parts.flatMap((part) => (part.type === "text" ? [part.text ?? ""] : [])).join("\n");

  return {
    specificationVersion: "v3",

    async transformParams({ params }) {
      const place = params.prompt.findLastIndex((message) => message.role === "user");
      const message = params.prompt[place];
      if (message?.role !== "user") return params;
      const asked = textOf(message.content);
      const known = await recall(asked);
      if (place === params.prompt.length - 1) record("user", asked);
      if (!known) return params;
      const told = { ...message, content: [/** @type {const} */ ({ type: "text", text: known }), ...message.content] };
      return { ...params, prompt: params.prompt.with(place, told) };
    },

    async wrapGenerate({ doGenerate }) {
      const answer = await doGenerate();
      record("assistant", textOf(answer.content));
      return answer;
    },

    async wrapStream({ doStream }) {
      const { stream, ...rest } = await doStream();
      let said = "";
      const watched = new TransformStream({
        transform(part, controller) {
          if (part.type === "text-delta") said += part.delta;
          controller.enqueue(part);
        },
        flush: () => record("assistant", said),
      });
      return { stream: stream.pipeThrough(watched), ...rest };
    },

    recorded: () => recording,
  };
}
