// @ts-check
/**
 * Jiyi over HTTP from JavaScript or TypeScript: tell it what happened, ask it what matters.
 *
 *   cd examples/typescript && npm ci && cd ../..
 *   JIYI_KEY=jiyi_… node examples/typescript/quickstart.mjs
 *
 * The key needs the rights `publish` and `read`. JIYI_URL says where the service is, unless it is http://127.0.0.1:8765.
 * `npm run generate` makes the types, jiyi.d.ts, from the OpenAPI document of the running service; `npm run check` holds this file to them.
 */
import createClient from "openapi-fetch";
import process from "node:process";

const url = process.env.JIYI_URL || "http://127.0.0.1:8765";
const key = process.env.JIYI_KEY;
if (!key) {
  console.error("JIYI_KEY: set it to an API key with the rights publish and read (`jiyi keys create NAME` makes one)");
  process.exit(2);
}

/** Seconds for which a request that is refused for asking too often (429) is sent again: it was not begun. And tries beyond the first. */
const PATIENCE = 70, TRIES = 16;

/**
 * As `fetch`, but waits as long as `Retry-After` says when it is told 429.
 *
 * @param {Request} request
 * @returns {Promise<Response>}
 */
async function patient(request) {
  const until = Date.now() + PATIENCE * 1000;
  for (let refusals = 0; ; refusals++) {
    const response = await fetch(request.clone());
    const told = Number(response.headers.get("Retry-After")) || 0;
    const pause = 1000 * (Math.max(told, Math.min(2 ** refusals, 8)) + Math.random() / 2);
    if (response.status !== 429 || refusals === TRIES || Date.now() + pause > until) return response;
    await new Promise((resume) => setTimeout(resume, pause));
  }
}

/** @type {import("openapi-fetch").Client<import("./jiyi.js").paths>} */
const jiyi = createClient({ baseUrl: url, fetch: patient, headers: { Authorization: `Bearer ${key}` } });

/**
 * The answer, or what the service says instead.
 *
 * @template T
 * @param {{ data?: T, error?: { detail?: string } | undefined, response: Response }} result
 * @returns {T}
 */
function answer({ data, error, response }) {
  if (data === undefined) throw new Error(`${response.status}: ${error?.detail ?? response.statusText}`);
  return data;
}

const agent_id = `quickstart-${Date.now()}`;
const happened = [
  { description: "Klaus is reading a book on gentrification", poignancy: 4 },
  { description: "克劳斯答应周五之前把论文交给玛丽亚", poignancy: 7 },
  { description: "The bed is unmade", poignancy: 1 },
];

// Stored at once, retrievable when a worker has embedded them: `wait` answers then.
const { event_ids } = answer(
  await jiyi.POST("/api/v1/events", {
    params: { query: { wait: 20 } },
    body: { events: happened.map((one) => ({ agent_id, ...one })) },
  }),
);
console.log(`told: ${event_ids.length} memories`);

for (const query of ["What does Klaus read?", "论文什么时候交？"]) {
  const { groups } = answer(await jiyi.POST("/api/v1/retrieve", { body: { agent_id, query, top_k: 1 } }));
  const first = groups?.[0]?.retrieved_nodes?.[0];
  console.log(`${query} → ${first?.description ?? "nothing"}`);
}
