// What the compiler refuses: a field that is missing, one of a wrong type, an address that there is not.
import createClient from "openapi-fetch";
import type { paths } from "./jiyi.js";

const jiyi = createClient<paths>({ baseUrl: "http://127.0.0.1:8765" });

export const missing = () =>
  // @ts-expect-error agent_id is required
  jiyi.POST("/api/v1/retrieve", { body: { query: "Why?", top_k: 3 } });
export const mistyped = () =>
  // @ts-expect-error top_k is a number
  jiyi.POST("/api/v1/retrieve", { body: { agent_id: "klaus", query: "Why?", top_k: "3" } });
// @ts-expect-error there is no such operation
export const nowhere = () => jiyi.GET("/api/v1/nowhere");
