// The browser half of cepbook.widgets.view: one Store (store.js) per widget model, one Panel per place where it is
// displayed. Only the visible rows are in the page. Uses table.js, tree.js and store.js, which Python puts before this.

const FLASH = 1200; // ms, as in view.css
const HEAD = 28; // px: the heading of a table with its line
const RISING = { arrived: "events since this page looks", "per second": "events per second of engine time since then" };
const PLAIN = { text: (value) => value, chars: Infinity }; // a line as it is

// ---- one displayed view -------------------------------------------------------------------------------------------

class Panel {
  constructor(store, el) {
    this.store = store;
    this.el = el;
    this.id = `cv-${Math.random().toString(36).slice(2)}`;
    this.held = null;
    this.build();
    store.attach(this);
    // Sizes are known only when the output is in the page, and change when the user drags the corner.
    this.observer = new ResizeObserver(() => this.schedule());
    this.observe();
    this.schedule();
  }
  observe() {
    for (const table of Object.values(this.tables)) this.observer.observe(table.node);
  }
  // The statement was deployed anew: it may have got a context or a pattern, or lost them.
  renew() {
    if (this.made === this.form()) return;
    this.observer.disconnect();
    this.root.remove();
    this.held = this.epl = this.picture = this.explanation = null;
    this.build();
    this.observe();
  }
  form() {
    const { panes, info } = this.store;
    return [...panes, info.results, ...info.levels].join("\u0001");
  }
  build() {
    this.made = this.form();
    const root = make("section", { class: "cepbook-view", "aria-label": `statement ${this.store.info.name}` });
    root.setAttribute("data-lm-suppress-shortcuts", "true"); // arrow keys are the view's, not the notebook's
    this.state = make("span", { class: "cv-state", role: "status" });
    this.name = make("strong", { class: "cv-name" });
    this.clock = make("span", { class: "cv-clock", title: "engine time (UTC)" });
    this.eplButton = make("button", { class: "cv-epl", type: "button", title: "show or hide the whole statement" });
    this.eplButton.onclick = () => this.set({ epl: !this.store.ui.epl });
    this.tables = {
      stream: new VirtualTable("stream of insert and remove rows"),
      window: new VirtualTable(this.store.info.results ? `${this.store.info.results.toLowerCase()}: what the statement shows now` : "window contents"),
      events: new VirtualTable("events in the window"),
      partitions: new VirtualTable("context partitions", this.store.info.levels.length ? "treegrid" : "grid"),
      waiting: new VirtualTable("partial matches: what the pattern waits for", "grid"),
    };
    this.cursors = { partitions: 0, waiting: 0, stream: -1 };
    this.entries = {};
    const chip = (key, sign, noun) => {
      const node = make("button", { class: `cv-chip cv-${key}`, type: "button", title: `show or hide ${noun} rows` });
      node.onclick = () => this.set({ [key]: !this.store.ui[key] });
      node.append(make("span", { "aria-hidden": "true" }, sign), make("span", { class: "cv-count" }));
      return node;
    };
    this.plus = chip("plus", "+", "insert");
    this.minus = chip("minus", "−", "remove");
    this.rate = make("span", { class: "cv-rate", title: "insert and remove rows per second" });
    this.filter = make("input", { class: "cv-filter", type: "search", placeholder: "Filter rows" });
    this.filter.setAttribute("aria-label", "show only rows that contain all of these words");
    this.filter.value = this.store.ui.filter;
    this.filter.oninput = () => this.seek();
    this.follow = make("button", { class: "cv-follow", type: "button", title: "keep the newest row in sight" }, "Follow");
    this.follow.onclick = () => this.set({ follow: !this.store.ui.follow });
    this.chosen = make("button", { class: "cv-chosen", type: "button", title: "show all partitions" });
    this.chosen.onclick = () => this.choose(null);
    this.footer = make("div", { class: "cv-footer" });
    root.append(
      make("div", { class: "cv-title" }, this.state, this.name, make("span", { class: "cv-space" }), this.clock),
      this.eplButton,
      make("div", { class: "cv-bar" }, this.tablist(), this.plus, this.minus, this.rate, make("span", { class: "cv-space" }),
        this.chosen, this.filter, this.follow),
    );
    for (const [pane, table] of Object.entries(this.tables)) {
      const attributes = { id: `${this.id}-${pane}`, role: "tabpanel", "aria-labelledby": `${this.id}-${pane}-tab` };
      root.append(make("div", attributes, table.node));
      table.node.addEventListener("scroll", () => this.scrolled(pane), { passive: true });
    }
    for (const pane of ["window", "events", "partitions"]) this.tables[pane].onSort = (name) => this.store.sortBy(name);
    for (const [pane, table] of Object.entries(this.tables)) {
      table.node.addEventListener("keydown", (event) => this.key(pane, event));
      table.body.addEventListener("click", (event) => {
        const row = event.target.closest(".cv-row");
        if (!row) return;
        this.cursors[pane] = row.index;
        this.act(pane, row.index);
      });
    }
    this.still = make("div", { class: "cv-still" });
    this.whyText = make("div", { class: "cv-why-text" });
    const close = make("button", { type: "button", class: "cv-close", title: "close", "aria-label": "close the explanation" }, "×");
    close.onclick = () => this.unexplain();
    this.why = make("div", { class: "cv-why", role: "region", "aria-label": "why this row was delivered", "aria-live": "polite" }, close, this.whyText);
    this.exporter = new Exporter(this.store);
    root.append(make("div", { class: "cv-below" }, this.footer, this.exporter.node), this.why, this.still);
    this.root = root;
    this.el.append(root);
  }
  tablist() {
    const list = make("div", { class: "cv-tabs", role: "tablist", "aria-label": "what to show" });
    const { panes } = this.store;
    this.tabs = panes.map((pane) => {
      const label = this.store.label(pane);
      const tab = make("button", { id: `${this.id}-${pane}-tab`, class: "cv-tab", role: "tab", type: "button" }, label);
      tab.setAttribute("aria-controls", `${this.id}-${pane}`);
      tab.pane = pane;
      tab.onclick = () => this.open(pane);
      return tab;
    });
    list.append(...this.tabs);
    list.onkeydown = (event) => {
      const at = panes.indexOf(this.store.ui.pane);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + panes.length, Home: 0, End: panes.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.open(panes[to % panes.length]);
      this.tabs[to % panes.length].focus();
    };
    return list;
  }
  set(change) {
    Object.assign(this.store.ui, change);
    if (change.follow === false) this.hold();
    this.store.changed();
  }
  // Of a large window the page has the last rows only: the kernel looks through all of them, once the reader stops typing.
  seek() {
    this.set({ filter: this.filter.value });
    clearTimeout(this.seeking);
    const shown = this.store[this.store.ui.pane];
    if (shown && (this.store.ui.pane === "partitions" || shown.total > shown.sent || shown.found !== undefined)) {
      this.seeking = setTimeout(() => this.store.show(), 250);
    }
  }
  // How a column is sorted: "" if not by it.
  sorting(pane, name) {
    const { by, down } = this.store.ui.sort[pane] ?? {};
    return by !== name ? "" : down ? "descending" : "ascending";
  }
  open(pane) {
    // What is looked for among partitions is not what is looked for among rows.
    if ((pane === "partitions") !== (this.store.ui.pane === "partitions")) this.filter.value = this.store.ui.filter = "";
    this.set({ pane });
    this.store.show();
  }
  choose(id) {
    const { ui, info } = this.store;
    ui.named = this.partitionName(id);
    const own = info.waits && !info.keeps ? "waiting" : "window";
    const pane = ["window", "events", "waiting"].includes(ui.pane) ? ui.pane : own;
    this.open(pane);
    this.set({ partition: id });
    this.store.window = this.store.events = this.store.waiting = null;
    this.store.show();
  }
  // What a click on row `index` of a pane does, or Enter: open and close, or choose a partition.
  act(pane, index) {
    const entry = this.entries[pane]?.[index];
    if (pane === "stream" && entry?.line === undefined) this.explain(index);
    if (pane === "partitions") {
      if (entry?.children.length) this.toggle(entry);
      else if (entry && entry.row >= 0 && entry.row < this.store.partitions.sent) this.choose(this.store.partitions.cells[0][entry.row]);
    } else if (entry && entry.key !== undefined) {
      const { opened } = this.store.ui;
      if (!opened.delete(entry.key)) {
        opened.add(entry.key);
        this.reveal = { pane, key: entry.key };
      }
      if (entry.delivery !== undefined) {
        this.set({ follow: false });
        this.store.expand(entry.delivery);
      }
      this.store.changed();
    }
  }
  // Why the row at this place of the stream was delivered.
  explain(index) {
    const { rows, at, count } = this.seen ?? {};
    if (!rows || index < 0 || index >= count) return;
    const r = at(index);
    const [delivery, insert] = [rows.delivery[r], rows.insert[r]];
    let behind = 0;
    while (rows.delivery[r + behind + 1] === delivery && rows.insert[r + behind + 1] === insert) behind += 1;
    this.set({ follow: false });
    this.store.why(delivery, behind, insert);
  }
  unexplain() {
    this.store.explained = null;
    this.store.changed();
  }
  toggle(node, open = (this.store.ui.closed ?? new Set()).has(node.path)) {
    const closed = new Set(this.store.ui.closed ?? []);
    if (open) closed.delete(node.path);
    else closed.add(node.path);
    this.set({ closed });
  }
  key(pane, event) {
    const entries = this.entries[pane];
    const count = entries?.length ?? (pane === "stream" ? (this.seen?.count ?? 0) : 0);
    if (!count) return;
    if (event.key === "Escape" && this.store.explained) {
      event.preventDefault();
      return this.unexplain();
    }
    const { node } = this.tables[pane];
    const page = Math.max(1, Math.floor(node.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    const at = this.cursors[pane];
    const branch = pane === "partitions" && entries?.[at]?.children.length ? entries[at] : null;
    if (event.key in steps) {
      event.preventDefault();
      if (pane === "stream") this.set({ follow: false });
      // A cursor that is nowhere begins where the reader looks.
      const from = at < 0 ? this.tables[pane].top - 1 : at;
      this.cursors[pane] = Math.min(count - 1, Math.max(0, from + steps[event.key]));
      const top = this.cursors[pane] * ROW;
      if (top < node.scrollTop) node.scrollTop = top;
      if (top + 2 * ROW > node.scrollTop + node.clientHeight) node.scrollTop = top + 2 * ROW - node.clientHeight;
      this.schedule();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.act(pane, at);
    } else if (branch && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      this.toggle(branch, event.key === "ArrowRight");
    }
  }
  scrolled(pane) {
    const { ui } = this.store;
    if (pane === "stream" && ui.pane === "stream" && this.root.isConnected) {
      const { atBottom } = this.tables.stream;
      if (ui.follow && !atBottom) this.set({ follow: false });
      else if (!ui.follow && atBottom) this.set({ follow: true });
    }
    this.schedule();
  }
  // The rows of a table that are in sight.
  visible(pane) {
    const { node } = this.tables[pane];
    return { first: Math.max(0, Math.floor(node.scrollTop / ROW)), rows: Math.ceil(node.clientHeight / ROW) + 1 };
  }
  need(pane) {
    const part = this.store[pane];
    const { first, rows } = this.visible(pane);
    const last = Math.min(part.count, first + rows);
    if (first < last && (first < part.first || last > part.first + part.sent)) this.store.look(pane, first);
  }
  // While the reader looks at older rows, what they look at stands still; the counters go on.
  hold() {
    this.held = { ...this.store.rows, next: this.store.inserted + this.store.removed };
  }
  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.root.isConnected) this.draw();
    });
  }
  draw() {
    const { store } = this;
    const { ui } = store;
    if (ui.follow) this.held = null;
    else if (!this.held) this.hold();
    this.drawHeader();
    for (const [pane, table] of Object.entries(this.tables)) {
      if (table.node.parentNode.hidden === (pane === ui.pane)) table.node.parentNode.hidden = pane !== ui.pane;
    }
    const draw = {
      stream: () => this.drawStream(),
      window: () => this.drawRows("window", store.columns, store.info.nothing),
      events: () => this.drawRows("events", store.events?.shown ?? [], "The window is empty, or keeps groups in place of events."),
      partitions: () => this.drawPartitions(),
      waiting: () => this.drawWaiting(),
    };
    const note = draw[ui.pane]();
    // No observer tells of what was hidden and is back within one frame.
    const hidden = !this.tables[ui.pane].node.clientHeight;
    if (hidden && !this.retried) setTimeout(() => this.schedule(), 100);
    this.retried = hidden;
    this.bringIntoSight();
    this.exporter.draw();
    setText(this.footer, store.problem || note);
    this.why.hidden = !store.explained;
    const html = store.explained?.html ?? ""; // made and escaped by Python
    if (this.explanation !== html) this.whyText.innerHTML = this.explanation = html;
    // The picture was made and escaped by Python.
    if (this.picture !== store.still) this.still.innerHTML = this.picture = store.still;
    if (this.picture) for (const table of Object.values(this.tables)) table.node.parentNode.hidden = true;
  }
  drawHeader() {
    const { store } = this;
    const { ui } = store;
    const idle = store.state === "live" && store.rate === 0 && !store.replaying;
    setText(this.state, idle ? "idle" : store.state);
    setAttribute(this.state, "data-state", idle ? "idle" : store.state);
    setText(this.name, store.info.name);
    setText(this.clock, store.clock);
    setAttribute(this.eplButton, "aria-expanded", String(ui.epl));
    if (this.epl !== store.info.epl) {
      this.epl = store.info.epl;
      this.eplButton.replaceChildren(...highlighted(this.epl.trim()));
    }
    for (const tab of this.tabs) {
      const on = tab.pane === ui.pane;
      setAttribute(tab, "aria-selected", String(on));
      setAttribute(tab, "tabindex", on ? "0" : "-1");
    }
    for (const [chip, key, count, noun] of [[this.plus, "plus", store.inserted, "insert"], [this.minus, "minus", store.removed, "remove"]]) {
      setText(chip.lastChild, numbers.format(count));
      setAttribute(chip, "aria-pressed", String(ui[key]));
      setAttribute(chip, "aria-label", `${plural(count, `${noun} row`)}, ${ui[key] ? "shown" : "hidden"}`);
    }
    setText(this.rate, store.state === "live" && store.rate >= 0.5 ? `${compact.format(store.rate)} rows/s` : "");
    setAttribute(this.follow, "aria-pressed", String(ui.follow));
    this.follow.hidden = ui.pane !== "stream";
    this.chosen.hidden = ui.partition === null || !["window", "events", "waiting"].includes(ui.pane);
    if (!this.chosen.hidden) setText(this.chosen, `${this.partitionName(ui.partition)} ×`);
    this.filter.hidden = ui.pane === "waiting";
    setAttribute(this.filter, "placeholder", ui.pane === "partitions" ? "Filter partitions" : "Filter rows");
    for (const chip of [this.plus, this.minus]) chip.disabled = ui.pane !== "stream";
  }
  partitionName(id) {
    const { partitions } = this.store;
    const at = partitions ? partitions.cells[0].indexOf(id) : -1;
    if (at < 0) return this.store.ui.partition === id && this.store.ui.named ? this.store.ui.named : `partition ${id}`;
    if (this.store.tree) return `${partitions.levels.at(-1).name} ${this.store.tree.text(partitions.levels.length - 1, at)}`;
    const named = partitions.columns.slice(1, partitions.columns.length - partitions.sizes);
    return named.map((c, i) => `${c.name} = ${c.text(partitions.cells[i + 1][at])}`).join(", ") || `partition ${id}`;
  }
  words() {
    return this.store.ui.filter.toLowerCase().split(/\s+/).filter(Boolean);
  }
  // The indices of the rows that pass filter and signs; null for all.
  passing(count, cells, insert, columns = this.store.columns) {
    const { ui } = this.store;
    const words = this.words();
    if (!words.length && (!insert || (ui.plus && ui.minus))) return null;
    const found = [];
    for (let r = 0; r < count; r += 1) {
      if (insert && !(insert[r] ? ui.plus : ui.minus)) continue;
      if (words.length) {
        const text = columns.map((c, i) => c.text(cells[i][r])).join("\u0001").toLowerCase();
        if (!words.every((word) => text.includes(word))) continue;
      }
      found.push(r);
    }
    return found;
  }
  drawStream() {
    const { store } = this;
    const rows = this.held ?? store.rows;
    const passing = this.passing(rows.time.length, rows.cells, rows.insert);
    const count = passing ? passing.length : rows.time.length;
    const { traced } = store.info;
    const entries = traced ? this.expanded(rows, passing, count) : null;
    this.entries.stream = entries;
    this.cursors.stream = Math.min(this.cursors.stream, (entries ? entries.length : count) - 1);
    const at = entries ? (i) => entries[i].row : passing ? (i) => passing[i] : (i) => i;
    this.seen = { rows, at, count: entries ? entries.length : count };
    const sign = { name: "sign", label: "", title: "insert (+) or remove (−)", chars: traced ? 3 : 1, extra: 4 };
    const columns = [{ ...store.timeColumn, extra: 4 }, sign, ...store.columns.map((c) => ({ ...c, extra: 4 }))];
    columns[0].chars = Math.max(12, store.timeColumn.chars);
    const fill = (i, row, cells) => {
      if (entries?.[i].line !== undefined) return this.fillLine(entries[i].line, row, cells);
      const r = at(i);
      const first = i === 0 || rows.delivery[at(i - 1)] !== rows.delivery[r];
      const insert = rows.insert[r];
      const cursor = i === this.cursors.stream ? " cv-cursor" : "";
      setClass(row, `cv-row ${insert ? "cv-insert" : "cv-remove"}${first ? " cv-first" : ""}${i === this.tables.stream.top ? " cv-top" : ""} cv-choice${cursor}`);
      setText(cells[0], timeText(rows.time[r], store.withMillis));
      const open = entries?.[i].key !== undefined ? (store.ui.opened.has(entries[i].key) ? "▾ " : "▸ ") : "";
      setText(cells[1], `${open}${insert ? "+" : "−"}`);
      if (open) setAttribute(row, "aria-expanded", String(open === "▾ "));
      else row.removeAttribute("aria-expanded");
      store.columns.forEach((column, c) => fillCell(cells[c + 2], column, rows.cells[c][r]));
    };
    this.tables.stream.draw(columns, entries ? entries.length : count, fill, store.rows.time.length ? "No row passes the filter." : "No rows yet.", store.ui.follow);
    const total = store.inserted + store.removed;
    const kept = rows.time.length;
    const parts = [passing ? `${numbers.format(count)} of ${plural(kept, "row")}` : plural(kept, "row")];
    if (total > kept && !this.held) parts.push(`${numbers.format(total - kept)} earlier rows not kept here`);
    if (this.held) parts.push("standing still while you read", `${numbers.format(total - this.held.next)} newer`);
    return total ? parts.join(" · ") : "";
  }
  // The rows of the stream with the events that made them, where these are opened.
  expanded(rows, passing, count) {
    const { ui, matches } = this.store;
    const entries = [];
    for (let i = 0; i < count; i += 1) {
      const row = passing ? passing[i] : i;
      const delivery = rows.delivery[row];
      if (!rows.insert[row]) {
        entries.push({ row });
        continue;
      }
      let later = 0; // insert rows of the delivery after this one: its first rows may have been cut
      while (rows.delivery[row + later + 1] === delivery && rows.insert[row + later + 1]) later += 1;
      const key = `${delivery}:${later}`;
      entries.push({ row, key, delivery });
      if (!ui.opened.has(key)) continue;
      const found = matches.get(delivery);
      if (!found) this.store.expand(delivery); // opened before the page was connected anew
      for (const line of found ? linesOf(found, later) : ["Reading …"]) entries.push({ row, line });
    }
    return entries;
  }
  fillLine(line, row, cells) {
    setClass(row, "cv-row cv-detail");
    row.removeAttribute("aria-expanded");
    cells.forEach((cell, i) => fillCell(cell, PLAIN, i ? "" : line));
  }
  drawWaiting() {
    const { store } = this;
    const { waiting, ui } = store;
    const table = this.tables.waiting;
    if (!waiting) {
      table.draw([], 0, () => {}, "Reading …");
      return "";
    }
    const entries = [];
    waiting.keys.forEach((key, row) => {
      entries.push({ row, key });
      if (ui.opened.has(key)) for (const line of waiting.lines[row].length ? waiting.lines[row] : ["no events yet"]) entries.push({ row, line });
    });
    this.entries.waiting = entries;
    const columns = waiting.columns.map((c, i) => ({ ...c, extra: i === 0 ? 6 : 4 }));
    const fill = (i, row, cells) => {
      const { row: r, key, line } = entries[i];
      if (line !== undefined) return this.fillLine(line, row, cells);
      const open = ui.opened.has(key);
      setClass(row, `cv-row cv-choice${i === this.cursors.waiting ? " cv-cursor" : ""}`);
      setAttribute(row, "aria-expanded", String(open));
      waiting.columns.forEach((column, c) => fillCell(cells[c], column, waiting.cells[c][r]));
      setText(cells[0], `${open ? "▾" : "▸"} ${cells[0].textContent.replace(/^[▾▸] /, "")}`);
    };
    table.draw(columns, entries.length, fill, "The pattern waits for nothing.");
    const parts = [plural(waiting.total, "partial match", "partial matches")];
    if (waiting.total > waiting.count) parts.push(`the first ${numbers.format(waiting.count)} are shown`);
    return parts.join(" · ");
  }
  // The rows of the iterator, or the events of the window; both are read, searched and sorted by the kernel.
  drawRows(pane, shown, empty) {
    const { store } = this;
    const window = store[pane];
    const passing = window && window.found === undefined ? this.passing(window.sent, window.cells, null, shown) : null;
    const count = window ? (passing ? passing.length : window.count) : 0;
    const columns = shown.map((c, i) => ({ ...c, sorted: this.sorting(pane, c.name), extra: 4 + (i === 0 ? 1 : 0) }));
    const flash = window && performance.now() - window.at < FLASH;
    const fill = (i, row, cells) => {
      const r = passing ? passing[i] : i - window.first;
      setClass(row, flash && window.entered.has(r) ? `cv-row cv-flash-${window.generation % 2}` : "cv-row");
      const there = r >= 0 && r < window.sent;
      shown.forEach((column, c) => fillCell(cells[c], there ? column : PLAIN, there ? window.cells[c][r] : ""));
    };
    const nothing = !window ? "Reading …" : passing || window.found === 0 ? "No row passes the filter." : empty;
    this.tables[pane].draw(columns, count, fill, nothing);
    if (!window) return "";
    if (!passing) this.need(pane);
    const [noun, sorted] = [pane === "events" ? "event" : "row", Boolean(store.ui.sort[pane])];
    const parts = [passing ? `${numbers.format(count)} of ${plural(window.count, noun)}` : plural(window.total, noun)];
    const found = window.found ?? window.total;
    if (window.found !== undefined && this.words().length) parts[0] = `${numbers.format(found)} of ${plural(window.total, noun)}`;
    if (found > window.count) parts.push(`the ${sorted ? "first" : "last"} ${numbers.format(window.count)} are shown`);
    if (pane === "events" && count) parts.push("with the properties that the statement still needs");
    return parts.join(" · ");
  }
  // An opened row and what stands below it are shown as far as there is room.
  bringIntoSight() {
    const { reveal } = this;
    const entries = reveal && this.entries[reveal.pane];
    if (!entries || this.store.ui.pane !== reveal.pane) return;
    const first = entries.findIndex((entry) => entry.key === reveal.key);
    if (first < 0) return;
    let last = first;
    while (entries[last + 1]?.line !== undefined) last += 1;
    if (entries[last].line === "Reading …") return;
    this.reveal = null;
    const { node } = this.tables[reveal.pane];
    const bottom = (last + 1) * ROW + HEAD - node.clientHeight;
    const to = Math.min(first * ROW, Math.max(node.scrollTop, bottom));
    if (to !== node.scrollTop) node.scrollTop = to;
    this.schedule();
  }
  drawPartitions() {
    const { store } = this;
    const { partitions } = store;
    const { node } = this.tables.partitions;
    if (!partitions) {
      this.tables.partitions.draw([], 0, () => {}, partitions === null ? "This statement has no context." : "Reading …");
      return "";
    }
    const draw = store.tree ? () => this.drawTree() : () => this.drawFlat();
    const entries = (this.entries.partitions = store.tree
      ? store.tree.visible(store.ui.closed ?? new Set())
      : Array.from({ length: partitions.count }, (_, i) => ({ row: i - partitions.first, children: [] })));
    this.cursors.partitions = Math.min(this.cursors.partitions, Math.max(0, entries.length - 1));
    draw();
    if (entries.length) setAttribute(node, "aria-activedescendant", `${this.id}-p${this.cursors.partitions}`);
    const found = partitions.found ?? partitions.total;
    const shown = found > partitions.count ? ` · the first ${numbers.format(partitions.count)} are shown` : "";
    const all = partitions.found === undefined ? plural(found, "partition") : `${numbers.format(found)} of ${plural(partitions.total, "partition")}`;
    const counted = store.tree && partitions.count && !shown ? store.tree.summary() : all;
    return `${counted}${shown}${partitions.count ? " · choose one to see its rows" : ""}`;
  }
  drawFlat() {
    const { partitions } = this.store;
    const columns = partitions.columns.map((c, i) => this.partitionColumn(c, i));
    const fill = (i, row, cells) => {
      const r = i - partitions.first;
      const there = r >= 0 && r < partitions.sent;
      this.choice(i, row, partitions.cells[0][r]);
      partitions.columns.forEach((column, c) => {
        const value = there ? partitions.cells[c][r] : null;
        const none = !there || (c >= partitions.columns.length - partitions.sizes && value === null);
        fillCell(cells[c], none ? PLAIN : column, none ? "" : value);
        drawShare(cells[c], c === partitions.bar && there ? value : null, partitions.most);
      });
    };
    this.tables.partitions.draw(columns, partitions.count, fill, partitions.total ? "No partition passes the filter." : "No partition exists yet.");
    this.need("partitions");
  }
  partitionColumn(c, i) {
    const title = RISING[c.name];
    const more = title ? { title } : {};
    return { ...c, ...more, sorted: this.sorting("partitions", c.name), extra: i === this.store.partitions.bar ? 14 : 4 };
  }
  drawTree() {
    const { store } = this;
    const { partitions, ui } = store;
    const entries = this.entries.partitions;
    const label = (node) => `${partitions.levels[node.level].name}${node.text ? ` ${node.text}` : ""}`;
    const widest = Math.max(24, ...entries.slice(0, 300).map((node) => 3 * node.level + 3 + label(node).length));
    const names = partitions.sizes ? partitions.columns.slice(-partitions.sizes) : [];
    const behind = partitions.columns.length - names.length;
    const bar = partitions.bar === null ? -1 : partitions.bar - behind;
    const most = Math.max(1, ...entries.map((node) => node.sizes[bar] ?? 0));
    const columns = [
      { name: "partition", chars: Math.min(70, widest), extra: 4 },
      { name: "id", right: true, chars: 5, extra: 4 },
      { name: "partitions", right: true, chars: 10, extra: 4 },
      ...names.map((c, i) => this.partitionColumn(c, behind + i)),
    ];
    const fill = (i, row, cells) => {
      const node = entries[i];
      const branch = node.children.length > 0;
      this.choice(i, row, branch ? undefined : partitions.cells[0][node.row]);
      setAttribute(row, "aria-level", String(node.level + 1));
      setAttribute(row, "aria-setsize", String(node.siblings));
      setAttribute(row, "aria-posinset", String(node.place));
      const open = branch && !ui.closed?.has(node.path);
      if (branch) setAttribute(row, "aria-expanded", String(open));
      else row.removeAttribute("aria-expanded");
      fillCell(cells[0], { ...PLAIN, chars: 70 }, `${branch ? (open ? "▾ " : "▸ ") : "  "}${label(node)}`);
      cells[0].style.setProperty("--cv-level", String(node.level));
      cells[0].classList.add("cv-node");
      fillCell(cells[1], PLAIN, branch ? "" : String(partitions.cells[0][node.row]));
      fillCell(cells[2], PLAIN, branch ? numbers.format(node.leaves) : "");
      node.sizes.forEach((size, c) => {
        fillCell(cells[3 + c], size === null ? PLAIN : names[c], size ?? "");
        drawShare(cells[3 + c], c === bar ? size : null, most);
      });
    };
    this.tables.partitions.draw(columns, entries.length, fill, partitions.total ? "No partition passes the filter." : "No partition exists yet.");
  }
  choice(i, row, id) {
    const chosen = id !== undefined && id === this.store.ui.partition;
    setClass(row, `cv-row cv-choice${i === this.cursors.partitions ? " cv-cursor" : ""}${chosen ? " cv-picked" : ""}`);
    setAttribute(row, "id", `${this.id}-p${i}`);
    setAttribute(row, "aria-selected", String(chosen));
  }
  dispose() {
    this.observer.disconnect();
    this.store.detach(this);
  }
}

export default () => {
  let store = null;
  return {
    initialize({ model }) {
      store = new Store(model);
      return () => store.dispose();
    },
    render({ model, el }) {
      store ??= new Store(model);
      return store.sites.add(el, new Panel(store, el));
    },
  };
};
