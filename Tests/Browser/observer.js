// Runs in each page before its own scripts, and keeps in `faults` whatever was ever wrong: a message twice, a message that
// left its log though nothing told so, a policy report, a wide page.
window.faults = [];
{
  // What the service has told of each open message collection, as any client is to keep it: the keys of its messages by
  // their names. All that is heard here is heard before the page hears it.
  const views = new Map(), givenUp = new Set();
  // The keys that were told and then told as gone, since the page last was at rest. The page draws later than it hears:
  // what is told again meanwhile may be missing in a log for a moment.
  const gone = new Set();
  // The keys that each log has shown and has not lost, the oldest first. Some of them may be outside of its elements.
  const lines = new WeakMap();

  const known = () => new Set([...views.values()].flatMap((view) => [...view.values()]));
  // A message may leave when it was told as gone, or when the user gives up one that was not sent.
  const mayLeave = (key) => givenUp.has(key) || gone.has(key);

  /** Runs `hear`, and notes the keys that no view has any more after it. */
  function noting(hear) {
    const before = known();
    hear();
    const after = known();
    before.forEach((key) => after.has(key) || gone.add(key));
  }

  function put(view, { message_id: id, request_id: request, sender }) {
    const key = request ? `${sender?.user_id}/${request}` : id;
    if (id && view.get(`request_id:${request}`) === key) view.delete(`request_id:${request}`);
    view.set(id || `request_id:${request}`, key);
  }

  function drop(view, { message_id: id, request_id: request }) {
    view.delete(id) || view.delete(`request_id:${request}`);
  }

  function hearEvents(events, path = "") {
    for (const event of events) {
      const view = views.get(event.collection_id ?? path.split("/")[3]);
      if (!view) continue;
      if (event.type === "channel.deleted") view.clear();
      if (event.type === "messages.replaced") {
        for (const name of view.keys()) if (!name.startsWith("request_id:")) view.delete(name);
      }
      event.messages?.forEach((row) => put(view, row));
      event.message_refs?.forEach((names) => drop(view, names));
    }
  }

  /** An answer of the service. A view that is opened or read has these messages; a page of older or newer ones adds some. */
  function hearAnswer(path, status, body) {
    const id = path.split(/[/?]/)[3], isLost = status === 403 || status === 404;
    if (status === 400) faults.push(`refused: ${path}: ${JSON.stringify(body)}`);
    if (body.events) hearEvents(body.events, path);
    else if (status >= 400) isLost && views.delete(id);
    else if (body.messages) {
      views.set(body.id, new Map());
      [...body.failed, ...body.pending, ...body.messages].forEach((row) => put(views.get(body.id), row));
    } else body.items?.forEach((row) => views.has(id) && put(views.get(id), row));
  }

  const realFetch = window.fetch;
  window.fetch = async (path, init) => {
    const isHeard = /^\/v1\/(message-collections|events)/.test(path);
    // A view that the page closes is no more its own.
    if (isHeard && init?.method === "DELETE") noting(() => views.delete(path.split("/")[3]));
    const answer = await realFetch(path, init);
    const isWhole = /json/.test(answer.headers.get("Content-Type"));
    const body = isHeard && isWhole && await answer.clone().json();
    if (body) noting(() => hearAnswer(path, answer.status, body));
    return answer;
  };
  window.EventSource = class extends EventSource {
    constructor(address) {
      super(address);
      this.addEventListener("message", ({ data }) => noting(() => hearEvents([JSON.parse(data)])));
    }
  };
  window.BroadcastChannel = class extends BroadcastChannel {
    constructor(name) {
      super(name);
      this.addEventListener("message", ({ data }) => data.kind === "batch" && noting(() => hearEvents(data.events)));
    }
  };
  addEventListener("click", ({ target }) => {
    if (target.closest("[data-act=cancel], [data-act=remove]")) givenUp.add(target.closest("article").dataset.key);
  }, true);

  /**
   * Whether the log's elements end at its oldest or newest message, so that nothing can be outside of them. A log leaves
   * elements out only when it has many.
   */
  const isWhole = (log) => log.childElementCount < 50;
  const isWholeAbove = (log) => isWhole(log) || ["begin", "edge:previous"].includes(log.firstElementChild.dataset.key);

  /** Whatever the log has shown, and is not there though it cannot be outside of the elements, must be told as gone. */
  function watchLine(log, isWholeBelow = isWhole(log)) {
    const shown = [...log.querySelectorAll("article")].map((one) => one.dataset.key), are = new Set(shown);
    const line = lines.get(log) ?? [], isHere = line.map((key) => are.has(key));
    const first = isHere.indexOf(true), last = isHere.lastIndexOf(true), above = [], below = [];
    line.forEach((key, at) => {
      if (are.has(key)) return;
      const isAbove = first < 0 || at < first, isOutside = isAbove ? !isWholeAbove(log) : at > last && !isWholeBelow;
      if (isOutside) (isAbove ? above : below).push(key);
      else if (!mayLeave(key)) faults.push(`left without an event: ${key}, of ${line.length} messages`);
    });
    lines.set(log, [...above, ...shown, ...below]);
  }

  /** At rest, a log that is scrolled to its bottom has elements to its newest end. */
  let resting = 0;
  function watchBottoms() {
    for (const log of document.querySelectorAll(".log")) {
      const { scrollTop, scrollHeight, clientHeight } = log.parentElement;
      if (scrollHeight - scrollTop - clientHeight < 40) watchLine(log, true);
    }
    known().forEach((key) => gone.delete(key));
  }

  function watchTexts(log) {
    const texts = [...log.querySelectorAll(".text")].map((one) => one.textContent.replace(/ \(edited\)$/, ""))
      .filter((text) => /^t\d+ /.test(text));
    const twice = texts.filter((text, at) => texts.indexOf(text) !== at);
    if (twice.length) faults.push(`twice: ${twice}`);
  }

  document.addEventListener("securitypolicyviolation", (event) =>
    faults.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
  new MutationObserver(() => {
    for (const log of document.querySelectorAll(".log")) {
      watchTexts(log);
      watchLine(log);
    }
    clearTimeout(resting);
    resting = setTimeout(watchBottoms, 200);
    if (document.documentElement.scrollWidth > innerWidth) faults.push(`wide: ${document.documentElement.scrollWidth}`);
  }).observe(document, { childList: true, subtree: true, characterData: true });
}
