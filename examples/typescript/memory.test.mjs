// What `memory.mjs` does with a model of the AI SDK that says what it was asked: two sessions, one answered at once, one as a stream.
import { generateText, streamText, wrapLanguageModel } from "ai";
import { MockLanguageModelV3, convertArrayToReadableStream } from "ai/test";
import { memory } from "./memory.mjs";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const finishReason = { unified: "stop", raw: "stop" };
const prompts = [];
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt }) => {
    prompts.push(prompt);
    return { content: [{ type: "text", text: "Noted." }], finishReason, usage, warnings: [] };
  },
  doStream: async ({ prompt }) => {
    prompts.push(prompt);
    const deltas = ["You ", "said so."].map((delta) => ({ type: "text-delta", id: "1", delta }));
    const parts = [{ type: "text-start", id: "1" }, ...deltas, { type: "text-end", id: "1" }, { type: "finish", finishReason, usage }];
    return { stream: convertArrayToReadableStream(parts) };
  },
});

const { JIYI_URL: url, JIYI_KEY: key } = process.env;
const options = { url, key, agent: "ai-sdk", user: "mia", recallMs: 20_000 };
const [message, question] = process.argv.slice(2);
if (question) {
  const remembers = memory({ ...options, session: "s-2" });
  const answer = streamText({ model: wrapLanguageModel({ model, middleware: remembers }), prompt: question });
  console.log(await answer.text, JSON.stringify(prompts));
  await remembers.recorded();
} else {
  const remembers = memory({ ...options, session: "s-1" });
  const { text } = await generateText({ model: wrapLanguageModel({ model, middleware: remembers }), prompt: message });
  await remembers.recorded();
  console.log(text);
}
