// The API's page: each operation as a call to copy (curl, Python, TypeScript), and to be tried with a key of one's own.
"use strict";

(() => {
  // Of what an answer is shown, and how long it is waited for: a live stream does not end.
  const MOST_CHARACTERS = 100_000;
  const MILLISECONDS = 30_000;
  const key = document.querySelector("#key");
  document.querySelector("#trying").hidden = false;

  const quoted = (text) => `'${text.replaceAll("'", String.raw`'\''`)}'`;
  const indented = (text) => text.trim().replaceAll("\n", "\n    ");
  // JSON as Python writes it; words in strings stay as they are.
  const literal = (text) =>
    text.replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (part) => ({ true: "True", false: "False", null: "None" })[part] ?? part);

  const CALLS = {
    curl: ({ method, url, body }) =>
      [
        `curl -X ${method} ${quoted(url)} \\`,
        `  -H "Authorization: Bearer $JIYI_KEY"${body ? ` -H "Content-Type: application/json" \\\n  -d ${quoted(body)}` : ""}`,
      ].join("\n"),
    Python: ({ method, url, body }) =>
      [
        "import os\n\nimport requests\n",
        `answer = requests.request(\n    "${method}", "${url}",`,
        `    headers={"Authorization": f"Bearer {os.environ['JIYI_KEY']}"},${body ? `\n    json=${indented(literal(body))},` : ""}`,
        `    timeout=60,\n)\nprint(answer.status_code, answer.text)`,
      ].join("\n"),
    TypeScript: ({ method, url, body }) =>
      [
        `const answer = await fetch("${url}", {\n  method: "${method}",`,
        `  headers: { Authorization: \`Bearer \${process.env.JIYI_KEY}\`${body ? ', "Content-Type": "application/json"' : ""} },`,
        `${body ? `  body: JSON.stringify(${indented(body)}),\n` : ""}});\nconsole.log(answer.status, await answer.text());`,
      ].join("\n"),
  };

  const read = async (response, say) => {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    try {
      for (let part = await reader.read(); !part.done && text.length < MOST_CHARACTERS; part = await reader.read()) say((text += part.value));
    } finally {
      await reader.cancel().catch(() => {}); // of a stream that was given up
    }
    try {
      say(JSON.stringify(JSON.parse(text), null, 2));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  };

  const send = async ({ method, url, body }, status, answer) => {
    const begun = performance.now();
    status.textContent = "…";
    answer.textContent = "";
    const headers = body ? { "Content-Type": "application/json" } : {};
    if (key.value.trim()) headers.Authorization = `Bearer ${key.value.trim()}`;
    try {
      const response = await fetch(url, { method, headers, body: body || undefined, signal: AbortSignal.timeout(MILLISECONDS) });
      status.textContent = `${response.status} ${response.statusText} · ${Math.round(performance.now() - begun)} ms`;
      if (response.body) await read(response, (text) => (answer.textContent = text.slice(0, MOST_CHARACTERS)));
    } catch (error) {
      const reason = error.name === "TimeoutError" ? `given up after ${MILLISECONDS / 1000} s` : `the service did not answer: ${error.message}`;
      status.textContent = `${status.textContent} ${reason}`.replace("… ", "");
    }
    answer.hidden = !answer.textContent;
  };

  const fill = (details) => {
    const article = details.closest("article");
    const form = document.querySelector("#call").content.cloneNode(true).firstElementChild;
    const [address, body] = [form.elements.address, form.elements.body];
    const [called, status, answer] = [form.querySelector(".called"), form.querySelector("[role=status]"), form.querySelector(".answer")];
    address.value = article.dataset.url;
    const example = article.querySelector("pre.example");
    if (example) body.value = example.textContent;
    else body.closest("label").remove();
    const call = () => ({ method: article.dataset.method, url: new URL(address.value, location.origin).href, body: example ? body.value : "" });
    const show = () => {
      called.textContent = CALLS[form.elements.language.value](call());
    };
    form.addEventListener("input", show);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (article.dataset.method === "DELETE" && !confirm("This deletes. Send it?")) return;
      event.submitter.disabled = true;
      await send(call(), status, answer);
      event.submitter.disabled = false;
    });
    form.querySelector("[data-copy]").addEventListener("click", () => navigator.clipboard?.writeText(called.textContent));
    details.append(form);
    show();
  };

  for (const details of document.querySelectorAll("details.try")) {
    details.hidden = false;
    details.addEventListener("toggle", () => details.open && !details.querySelector("form") && fill(details));
  }
})();
