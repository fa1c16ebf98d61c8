import { button, el, fill } from "./dom.js";
import { demoUsers, keepSession, session, userOfToken } from "./session.js";
import { asCurl } from "./as_curl.js";

// Lets the reader of the reference try each operation: its form sends the request with the token that is set,
// and shows the answer and the same request for a shell.

const LONGEST_SHOWN = 20_000;

const contract = await (await fetch("/openapi.json")).json();
const resolved = (value) =>
  value?.$ref ? resolved(value.$ref.slice(2).split("/").reduce((node, part) => node[part], contract)) : value;

document.querySelector("h1").after(await whoYouAre());
for (const [path, item] of Object.entries(contract.paths)) {
  for (const [method, operation] of Object.entries(item)) offer(method.toUpperCase(), path, operation);
}

/** The token that is set, and how to set another one. */
async function whoYouAre() {
  const said = el("p", { role: "status" });
  const field = el("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false" });
  const use = (token) => {
    const user = token ? userOfToken(token) : "";
    if (user !== undefined) keepSession(user, token);
    said.textContent =
      (user === undefined ? "This is no token. `perch token --data DIR --user U` prints one. " : "")
      + (session.token ? `Requests are sent as ${session.user}.` : "Requests are sent without a token.");
  };
  use(session.token);
  const submit = (event) => {
    event.preventDefault();
    use(field.value.trim());
  };
  const users = (await demoUsers()).map(({ user_id: user, token }) => button(`Be ${user}`, () => use(token)));
  return el("form", { class: "try", onsubmit: submit },
    el("label", { for: "token" }, "Token to try operations with"), field, el("button", {}, "Use it"), users, said);
}

/** Puts a button after what the page says of an operation, which opens its form. */
function offer(method, path, operation) {
  const heading = document.getElementById(operation.operationId);
  const place = el("div", {});
  place.append(button("Try it", () => {
    fill(place, formOf(method, path, operation));
    place.querySelector("input, select, textarea, button").focus();
  }, { "aria-label": `Try ${operation.operationId}` }));
  heading.nextElementSibling.after(place);
}

function formOf(method, path, operation) {
  const id = operation.operationId;
  const parameters = (operation.parameters ?? []).map((reference) => parameterField(id, resolved(reference)));
  const body = bodyField(id, resolved(operation.requestBody));
  const result = el("div", { class: "result", "aria-live": "polite" });
  const submit = (event) => {
    event.preventDefault();
    send(requestOf(method, path, parameters, body), result);
  };
  return el("form", { class: "try", onsubmit: submit, "aria-label": id }, parameters.map((one) => one.row),
    body?.row, el("button", {}, `Send ${method}`), result);
}

/** A parameter with the field for its value. A required one has the contract's example in it. */
function parameterField(operation, parameter) {
  const { name, required } = parameter, id = `${operation}-${parameter.in}-${name}`;
  const example = parameter.example ?? Object.values(parameter.examples ?? {})[0]?.value
    ?? resolved(parameter.schema)?.default;
  // A browser takes `.` and `..` out of a path: the request would be another one.
  const asPath = parameter.in === "path" && { pattern: "(?!\\.\\.?$).+", title: "neither . nor .." };
  const input = el("input", { id, required, autocomplete: "off", placeholder: required ? null : example, ...asPath });
  if (required) input.value = example ?? "";
  return { ...parameter, input, row: [el("label", { for: id }, `${name} (${parameter.in})`), input] };
}

/** The fields of a body: JSON, or a form of `params` and a file where the operation takes a file. */
function bodyField(operation, body) {
  if (!body) return null;
  const json = body.content["application/json"], form = body.content["multipart/form-data"];
  const examples = json?.example ?? Object.values(json?.examples ?? {}).map((one) => resolved(one).value)[0];
  const text = el("textarea", { id: `${operation}-body`, rows: "6", spellcheck: "false" });
  text.value = examples === undefined ? "" : JSON.stringify(examples, null, 2);
  const file = form && el("input", { id: `${operation}-file`, type: "file" });
  return { text, file, isForm: !json, row: [
    el("label", { for: text.id }, json ? "Body, as JSON" : "params, as JSON"), text,
    file && el("label", { for: file.id }, "File: with one the request is a form"), file,
  ] };
}

/** The request as it is filled in: its path, its headers and its body. */
function requestOf(method, path, parameters, body) {
  const headers = {}, query = new URLSearchParams();
  for (const { in: where, name, input: { value } } of parameters) {
    if (!value) continue;
    if (where === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    if (where === "query") query.append(name, value);
    if (where === "header") headers[name] = value;
  }
  const file = body?.file?.files[0], text = body?.text.value.trim();
  return { method, headers, path: path + (`${query}` && `?${query}`),
    body: file || body?.isForm ? { params: text, file } : text };
}

/** Sends the request and shows its answer as it comes, until it ends or somebody stops it. */
async function send(request, result) {
  const { method, path, headers, body } = request, stop = new AbortController(), began = performance.now();
  const said = el("span", {}, "It is under way. "), shown = el("pre", { tabindex: "0" });
  const stopping = button("Stop", () => stop.abort());
  const curl = asCurl({ ...request, body: body?.file ? { ...body, file: body.file.name } : body });
  fill(result, el("p", {}, "For a shell, with the token in $T:"), el("pre", { tabindex: "0" }, curl),
    el("p", {}, said, stopping), shown);
  const content = bodyOf(body);
  try {
    const answer = await fetch(path, {
      method, signal: stop.signal, redirect: "manual", body: content,
      headers: { ...headers, ...(session.token && { Authorization: `Bearer ${session.token}` }),
        ...(typeof content === "string" && { "Content-Type": "application/json" }) },
    });
    const time = `${Math.round(performance.now() - began)} ms`;
    said.textContent = answer.type === "opaqueredirect"
      ? `A redirect, which this page does not follow, after ${time}. ` : `${answer.status} after ${time}. `;
    await show(answer, shown);
  } catch (error) {
    shown.append(stop.signal.aborted ? "\nStopped." : `\n${error.message}`);
  }
  stopping.remove();
}

function bodyOf(body) {
  if (!body || typeof body === "string") return body || undefined;
  const form = new FormData();
  if (body.params) form.append("params", body.params);
  if (body.file) form.append("file", body.file);
  return form;
}

/** Shows the headers and the body. A stream is shown as it comes, JSON is laid out when it is whole. */
async function show(answer, shown) {
  const head = [...answer.headers].map(([name, value]) => `${name}: ${value}\n`).join("");
  const type = answer.headers.get("Content-Type") ?? "", decoder = new TextDecoder();
  let text = "";
  shown.textContent = head;
  if (type && !/json|text|yaml|javascript/.test(type)) {
    shown.append(`\n${(await answer.blob()).size} bytes of ${type}`);
    return;
  }
  const reader = answer.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
    text += decoder.decode(part.value, { stream: true });
    shown.textContent = `${head}\n${text.slice(0, LONGEST_SHOWN)}`;
  }
  if (!/json/.test(type) || text.length > LONGEST_SHOWN) return;
  shown.textContent = `${head}\n${JSON.stringify(JSON.parse(text), null, 2)}`;
}
