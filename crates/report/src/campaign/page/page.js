"use strict";
(() => {
  const table = document.getElementById("targets");
  const form = document.getElementById("filters");
  if (!table || !form) {
    // Without repositories there is nothing to lose.
    const live = document.getElementById("live");
    if (live) new EventSource(live.dataset.events).onmessage = () => location.reload();
    return;
  }
  const body = table.tBodies[0];
  const itemOf = (row, at) => ({
    row, at, html: row.innerHTML, state: row.dataset.state, kind: row.dataset.class || "",
    text: row.textContent.toLowerCase(),
  });
  let rows = Array.from(body.rows, itemOf);
  const heads = Array.from(table.tHead.rows[0].cells);
  const field = (name) => form.elements.namedItem(name);
  const names = ["state", "class", "text"].filter(field);
  let sort = "";

  // What is asked for: `state=failed&class=model&text=web&sort=-cost`.
  const read = () => {
    const asked = new URLSearchParams(location.hash.replace(/^#/, ""));
    for (const name of names) set(name, asked.get(name) || "");
    sort = asked.get("sort") || "";
    show();
  };

  const set = (name, value) => {
    field(name).value = value;
    // A value that the page does not have filters everything out, as it says.
    if (value && field(name).value !== value) {
      const option = document.createElement("option");
      option.value = option.textContent = value;
      field(name).append(option);
      field(name).value = value;
    }
  };

  const write = () => {
    const asked = new URLSearchParams();
    for (const name of names) if (field(name).value) asked.set(name, field(name).value);
    if (sort) asked.set("sort", sort);
    const hash = asked.toString();
    try {
      history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
    } catch { /* pages in a frame may not */ }
    show();
  };

  const show = () => {
    const value = (name) => (field(name) ? field(name).value : "");
    const wanted = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of rows) {
      const fits = (!value("state") || item.state === value("state"))
        && (!value("class") || item.kind === value("class"))
        && wanted.every((word) => item.text.includes(word));
      item.row.hidden = !fits;
      if (fits) shown += 1;
    }
    const count = document.getElementById("shown");
    const words =
      shown === rows.length ? `${shown} repositories` : `${shown} of ${rows.length} repositories`;
    // Read out when it is set, also to what it was.
    if (count.textContent !== words) count.textContent = words;
    document.getElementById("none").hidden = shown > 0;
    table.hidden = shown === 0;
    order();
  };

  const order = () => {
    const down = sort.startsWith("-");
    const at = heads.findIndex((head) => head.dataset.key === sort.replace(/^-/, ""));
    heads.forEach((head, index) => {
      if (index === at) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const key = (item) => {
      const cell = item.row.cells[at];
      return cell.dataset.sort !== undefined ? cell.dataset.sort : cell.textContent.toLowerCase();
    };
    const sorted = rows.slice();
    if (at >= 0) {
      const keys = new Map(rows.map((item) => [item, key(item)]));
      const number = (item) => Number(keys.get(item));
      const numeric = rows.every((item) => keys.get(item) !== "" && !Number.isNaN(number(item)));
      sorted.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        const by = numeric ? number(a) - number(b) : x < y ? -1 : x > y ? 1 : 0;
        return (down ? -by : by) || a.at - b.at;
      });
    }
    // A row that moves loses the focus, and the reader the place.
    if (sorted.every((item, place) => body.rows[place] === item.row)) return;
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    body.append(...sorted.map((item) => item.row));
    if (focused) focused.focus({ preventScroll: true });
  };

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.append(button);
    button.addEventListener("click", () => {
      const key = head.dataset.key;
      // Numbers are looked at from the greatest.
      const first = head.classList.contains("number") ? "-" + key : key;
      const second = first === key ? "-" + key : key;
      sort = sort === first ? second : sort === second ? "" : first;
      write();
    });
  }
  form.addEventListener("input", write);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { sort = ""; write(); }));
  addEventListener("hashchange", () => {
    read();
    if (location.hash.includes("=")) document.getElementById("repositories").scrollIntoView();
  });
  form.hidden = false;
  read();

  // The page of a server: when something has happened it is fetched again, and what is different in it is
  // put in place of what is there. Filters, order, focus, place and what was unfolded stay.
  const live = document.getElementById("live");
  if (!live) return;

  const reachable = "a[href], button, summary, select, input, [tabindex]";
  const put = (part, fresh) => {
    const before = Array.from(part.querySelectorAll(reachable));
    const at = before.indexOf(document.activeElement);
    const href = at >= 0 ? before[at].getAttribute("href") : null;
    const lefts = Array.from(part.querySelectorAll(".scroll"), (box) => box.scrollLeft);
    const open = Array.from(part.querySelectorAll("details"), (details) => details.open);
    part.replaceChildren(...fresh.childNodes);
    part.querySelectorAll(".scroll").forEach((box, index) => { box.scrollLeft = lefts[index] || 0; });
    part.querySelectorAll("details").forEach((details, index) => { details.open = open[index] || false; });
    if (at < 0) return;
    const after = Array.from(part.querySelectorAll(reachable));
    const same = after.find((one) => href !== null && one.getAttribute("href") === href) || after[at];
    if (same) same.focus({ preventScroll: true });
  };

  const parts = new Map();
  for (const part of document.querySelectorAll("[data-part]")) parts.set(part.dataset.part, part.innerHTML);

  const putRows = (fresh) => {
    const known = new Map(rows.map((item) => [item.row.dataset.id, item]));
    rows = Array.from(fresh.tBodies[0].rows, (row, at) => {
      const item = known.get(row.dataset.id);
      known.delete(row.dataset.id);
      if (!item) {
        body.append(row);
        return itemOf(row, at);
      }
      const html = row.innerHTML;
      if (html === item.html) return Object.assign(item, { at });
      put(item.row, row);
      item.row.dataset.state = row.dataset.state;
      if (row.dataset.class) item.row.dataset.class = row.dataset.class;
      else delete item.row.dataset.class;
      return { ...itemOf(item.row, at), html };
    });
    for (const item of known.values()) item.row.remove();
  };

  const putOptions = (fresh) => {
    for (const select of form.querySelectorAll("select")) {
      const other = fresh.elements.namedItem(select.name);
      // A list that is being chosen from would close; it is right the next time.
      if (!other || select === document.activeElement) continue;
      const value = select.value;
      select.replaceChildren(...other.childNodes);
      set(select.name, value);
      select.parentElement.hidden = other.parentElement.hidden && !value;
    }
  };

  const update = (fresh) => {
    const table = fresh.getElementById("targets");
    const filters = fresh.getElementById("filters");
    if (!table || !filters) throw new Error("another page");
    document.title = fresh.title;
    for (const part of document.querySelectorAll("[data-part]")) {
      const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
      const html = other ? other.innerHTML : "";
      if (!other || html === parts.get(part.dataset.part)) continue;
      parts.set(part.dataset.part, html);
      put(part, other);
    }
    putRows(table);
    putOptions(filters);
    show();
  };

  const [reload, button, status] = ["a", "button", "[role=status]"].map((name) => live.querySelector(name));
  const say = (words) => { if (status.textContent !== words) status.textContent = words; };
  const soon = 2000, later = 10000, tick = 60000;
  let source = null, last = "", asked = false, busy = false, paused = false;

  const look = async () => {
    asked = true;
    if (busy || paused || document.hidden) return;
    [busy, asked] = [true, false];
    let wait = soon;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (!paused) update(new DOMParser().parseFromString(text, "text/html"));
      reload.hidden = true;
      say("");
    } catch {
      // The server is being started again, or wants to know again who asks.
      reload.hidden = false;
      say("This page is not up to date: the server does not answer it.");
      [asked, wait] = [true, later];
    }
    setTimeout(() => { busy = false; if (asked) look(); }, wait);
  };

  const connect = () => {
    if (source) source.close();
    source = null;
    if (paused || document.hidden) return;
    const address = new URL(live.dataset.events, location.href);
    if (last) address.searchParams.set("after", last);
    const mine = source = new EventSource(address);
    mine.onmessage = (event) => { last = event.lastEventId; look(); };
    mine.onerror = () => {
      // Others are opened again by the browser.
      if (mine === source && mine.readyState === EventSource.CLOSED) setTimeout(connect, later);
    };
  };

  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    say(paused ? "Updates are paused." : "");
    connect();
    if (!paused) look();
  });
  document.addEventListener("visibilitychange", () => { connect(); if (!document.hidden) look(); });
  // Times pass without events.
  setInterval(look, tick);
  reload.hidden = true;
  button.hidden = false;
  connect();
})();
