"use strict";
(() => {
  const table = document.getElementById("targets");
  const form = document.getElementById("filters");
  if (!table || !form) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row, at) => ({
    row, at, state: row.dataset.state, kind: row.dataset.class || "", text: row.textContent.toLowerCase(),
  }));
  const heads = Array.from(table.tHead.rows[0].cells);
  const field = (name) => form.elements.namedItem(name);
  const names = ["state", "class", "text"].filter(field);
  let sort = "";

  // What is asked for: `state=failed&class=model&text=web&sort=-cost`.
  const read = () => {
    const asked = new URLSearchParams(location.hash.replace(/^#/, ""));
    for (const name of names) {
      field(name).value = asked.get(name) || "";
      // A value that the page does not have filters everything out, as it says.
      if (asked.get(name) && field(name).value !== asked.get(name)) {
        const option = document.createElement("option");
        option.value = option.textContent = asked.get(name);
        field(name).append(option);
        field(name).value = asked.get(name);
      }
    }
    sort = asked.get("sort") || "";
    show();
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
    const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of rows) {
      const fits = (!value("state") || item.state === value("state"))
        && (!value("class") || item.kind === value("class"))
        && words.every((word) => item.text.includes(word));
      item.row.hidden = !fits;
      if (fits) shown += 1;
    }
    document.getElementById("shown").textContent =
      shown === rows.length ? `${shown} repositories` : `${shown} of ${rows.length} repositories`;
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
    body.append(...sorted.map((item) => item.row));
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
})();
