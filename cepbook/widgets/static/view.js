// The browser half of cepbook.widgets.view: one Store per widget model, one Panel per place where it is displayed.
// Only the visible rows are in the page; a frame is acknowledged after it was drawn, which is the back-pressure.
// Uses table.js, which Python puts before this text.

const ACK_AT_LATEST = 200; // ms; a hidden page draws nothing but must not stall the stream
const FLASH = 1200; // ms, as in view.css

// ---- what the kernel sent -----------------------------------------------------------------------------------------

class Store {
  constructor(model) {
    this.model = model;
    this.panels = new Set();
    this.client = Math.random().toString(36).slice(2);
    this.ui = { pane: "stream", partition: null, follow: true, filter: "", plus: true, minus: true, epl: false };
    this.described();
    this.onMessage = (message, buffers) => message?.kind === "frame" && this.receive(message, buffers);
    this.onInfo = () => (this.described(), this.changed(), this.panels.size && this.hello());
    model.on("msg:custom", this.onMessage);
    model.on("change:info", this.onInfo);
    this.beat = setInterval(() => this.decay(), 500);
    this.born = performance.now();
    this.answered = false;
  }
  // Only what is displayed somewhere costs frames.
  attach(panel) {
    this.panels.add(panel);
    if (this.panels.size === 1) this.hello();
  }
  detach(panel) {
    this.panels.delete(panel);
    if (this.panels.size === 0) this.send({ kind: "bye", client: this.client });
  }
  // A saved notebook may hold the widget's state but has no kernel: then the last static picture is all there is.
  get still() {
    return !this.answered && performance.now() - this.born > 1500 ? this.model.get("snapshot") : "";
  }
  send(message) {
    try {
      this.model.send(message);
    } catch (error) {
      console.debug("cepbook: no kernel to talk to", error);
    }
  }
  described() {
    this.info = this.model.get("info");
    this.columns = this.info.columns.map((c) => new Column(c));
    this.timeColumn = new Column({ name: "time", type: "long", kind: "time" });
    this.withMillis = false;
    this.clock = "";
    this.state = "ready";
    Object.assign(this, { inserted: 0, removed: 0, rate: 0, heard: 0, fresh: true, problem: "" });
    Object.assign(this, { window: null, partitions: undefined, generation: 0 });
    this.clear();
  }
  clear() {
    this.next = 0;
    this.rows = { time: [], insert: [], delivery: [], cells: this.columns.map(() => []) };
  }
  hello() {
    this.fresh = true;
    this.send({ kind: "hello", client: this.client });
    this.show();
  }
  show() {
    this.send({ kind: "show", client: this.client, pane: this.ui.pane, partition: this.ui.partition });
  }
  receive(frame, buffers) {
    this.answered = true;
    this.clock = frame.clock;
    this.state = frame.state;
    this.problem = frame.problem ?? "";
    if (frame.stream) this.stream(frame.stream, buffers);
    if (frame.window) this.contents(frame.window, buffers);
    if (frame.partitions !== undefined) this.listed(frame.partitions, buffers);
    this.changed();
    let answered = false;
    const acknowledge = () => {
      if (answered) return;
      answered = true;
      this.send({ kind: "ack", n: frame.n });
    };
    requestAnimationFrame(() => setTimeout(acknowledge));
    setTimeout(acknowledge, ACK_AT_LATEST);
  }
  stream(stream, buffers) {
    if (stream.full || stream.from > this.next) this.clear();
    const [time, insert, delivery] = ["time", "insert", "delivery"].map((part) => decode(stream[part], buffers));
    const cells = stream.columns.map((column) => decode(column, buffers));
    const skip = delivery.findIndex((n) => n >= this.next);
    if (skip >= 0) {
      const part = (values) => (skip ? values.slice(skip) : values);
      const rows = this.rows;
      rows.time = rows.time.concat(part(time));
      rows.insert = rows.insert.concat(part(insert));
      rows.delivery = rows.delivery.concat(part(delivery));
      rows.cells = rows.cells.map((kept, i) => kept.concat(part(cells[i])));
      this.columns.forEach((column, i) => column.learn(cells[i]));
      this.withMillis ||= time.some((ms) => ms % 1000 !== 0);
      this.timeColumn.chars = timeText(time[time.length - 1], this.withMillis).length;
    }
    this.next = stream.to;
    const gone = this.rows.delivery.findIndex((n) => n >= stream.first);
    const excess = Math.max(gone < 0 ? this.rows.delivery.length : gone, this.rows.time.length - this.info.keep);
    if (excess > 0) {
      const rows = this.rows;
      for (const part of ["time", "insert", "delivery"]) rows[part] = rows[part].slice(excess);
      rows.cells = rows.cells.map((kept) => kept.slice(excess));
    }
    this.measure(stream.inserted + stream.removed - this.inserted - this.removed);
    this.inserted = stream.inserted;
    this.removed = stream.removed;
  }
  measure(news) {
    const now = performance.now();
    if (!this.fresh && news > 0) {
      const elapsed = Math.max(20, now - (this.heard || now - 1000)) / 1000;
      const weight = 1 - Math.exp(-elapsed / 0.8);
      this.rate += weight * (news / elapsed - this.rate);
    }
    if (news > 0) this.heard = now;
    this.fresh = false;
  }
  decay() {
    if (this.still) this.changed();
    if (this.rate && performance.now() - this.heard > 1500) {
      this.rate = 0;
      this.changed();
    }
  }
  contents(window, buffers) {
    const cells = window.columns.map((column) => decode(column, buffers));
    this.columns.forEach((column, i) => column.learn(cells[i]));
    const before = this.window?.partition === window.partition ? this.window.keys : null;
    const keys = Array.from({ length: window.count }, (_, r) => cells.map((values) => values[r]).join("\u0001"));
    const seen = new Map();
    for (const key of before ?? []) seen.set(key, (seen.get(key) ?? 0) + 1);
    const entered = new Set();
    if (before) {
      keys.forEach((key, r) => {
        const left = seen.get(key) ?? 0;
        if (left) seen.set(key, left - 1);
        else entered.add(r);
      });
    }
    // When most rows are new, a flash says nothing and only disturbs.
    if (entered.size > Math.max(3, window.count / 2)) entered.clear();
    this.generation += 1;
    this.window = { ...window, cells, keys, entered, generation: this.generation, at: performance.now() };
  }
  listed(partitions, buffers) {
    if (!partitions) return void (this.partitions = null);
    const same = this.partitions && partitions.names.every((c, i) => this.partitions.columns[i]?.name === c.name);
    const columns = same ? this.partitions.columns : partitions.names.map((c) => new Column(c));
    const cells = partitions.columns.map((column) => decode(column, buffers));
    columns.forEach((column, i) => column.learn(cells[i]));
    const sizes = cells[columns.length - 1] ?? [];
    this.partitions = { ...partitions, columns, cells, most: Math.max(1, ...sizes) };
  }
  changed() {
    for (const panel of this.panels) panel.schedule();
  }
  dispose() {
    clearInterval(this.beat);
    this.model.off("msg:custom", this.onMessage);
    this.model.off("change:info", this.onInfo);
    this.send({ kind: "bye", client: this.client });
  }
}

// ---- one displayed view -------------------------------------------------------------------------------------------

class Panel {
  constructor(store, el) {
    this.store = store;
    this.el = el;
    this.id = `cv-${Math.random().toString(36).slice(2)}`;
    this.cursor = 0;
    this.held = null;
    this.build();
    store.attach(this);
    // Sizes are known only when the output is in the page, and change when the user drags the corner.
    this.observer = new ResizeObserver(() => this.schedule());
    for (const table of Object.values(this.tables)) this.observer.observe(table.node);
    this.schedule();
  }
  build() {
    const root = make("section", { class: "cepbook-view", "aria-label": `statement ${this.store.info.name}` });
    root.setAttribute("data-lm-suppress-shortcuts", "true"); // arrow keys are the view's, not the notebook's
    this.state = make("span", { class: "cv-state", role: "status" });
    this.name = make("strong", { class: "cv-name" });
    this.clock = make("span", { class: "cv-clock", title: "engine time (UTC)" });
    this.eplButton = make("button", { class: "cv-epl", type: "button", title: "show or hide the whole statement" });
    this.eplButton.onclick = () => this.set({ epl: !this.store.ui.epl });
    this.tables = {
      stream: new VirtualTable("stream of insert and remove rows"),
      window: new VirtualTable("window contents"),
      partitions: new VirtualTable("context partitions", "grid"),
    };
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
    this.filter.oninput = () => this.set({ filter: this.filter.value });
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
    const grid = this.tables.partitions;
    grid.node.addEventListener("keydown", (event) => this.partitionKey(event));
    grid.body.addEventListener("click", (event) => {
      const row = event.target.closest(".cv-row");
      if (row) this.choose(this.partitionAt(row.index));
    });
    this.still = make("div", { class: "cv-still" });
    root.append(this.footer, this.still);
    this.root = root;
    this.el.append(root);
  }
  tablist() {
    const list = make("div", { class: "cv-tabs", role: "tablist", "aria-label": "what to show" });
    const panes = this.store.info.context ? ["stream", "window", "partitions"] : ["stream", "window"];
    this.tabs = panes.map((pane) => {
      const label = pane[0].toUpperCase() + pane.slice(1);
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
  open(pane) {
    this.set({ pane });
    this.store.show();
  }
  choose(id) {
    this.set({ partition: id, pane: "window" });
    this.store.window = null;
    this.store.show();
  }
  partitionAt(index) {
    return this.store.partitions?.cells[0]?.[index] ?? null;
  }
  partitionKey(event) {
    const count = this.store.partitions?.count ?? 0;
    const page = Math.max(1, Math.floor(this.tables.partitions.node.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    if (event.key in steps && count) {
      event.preventDefault();
      this.cursor = Math.min(count - 1, Math.max(0, this.cursor + steps[event.key]));
      const { node } = this.tables.partitions;
      const top = this.cursor * ROW;
      if (top < node.scrollTop) node.scrollTop = top;
      if (top + 2 * ROW > node.scrollTop + node.clientHeight) node.scrollTop = top + 2 * ROW - node.clientHeight;
      this.schedule();
    } else if ((event.key === "Enter" || event.key === " ") && count) {
      event.preventDefault();
      this.choose(this.partitionAt(this.cursor));
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
    const note = { stream: () => this.drawStream(), window: () => this.drawWindow(), partitions: () => this.drawPartitions() }[ui.pane]();
    setText(this.footer, store.problem || note);
    // The picture was made and escaped by Python.
    if (this.picture !== store.still) this.still.innerHTML = this.picture = store.still;
    if (this.picture) for (const table of Object.values(this.tables)) table.node.parentNode.hidden = true;
  }
  drawHeader() {
    const { store } = this;
    const { ui } = store;
    const idle = store.state === "live" && store.rate === 0;
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
    this.chosen.hidden = ui.partition === null || ui.pane !== "window";
    if (!this.chosen.hidden) setText(this.chosen, `${this.partitionName(ui.partition)} ×`);
    this.filter.hidden = ui.pane === "partitions";
    for (const chip of [this.plus, this.minus]) chip.disabled = ui.pane !== "stream";
  }
  partitionName(id) {
    const { partitions } = this.store;
    const at = partitions ? partitions.cells[0].indexOf(id) : -1;
    if (at < 0) return `partition ${id}`;
    return partitions.columns.slice(1, -1).map((c, i) => `${c.name} = ${c.text(partitions.cells[i + 1][at])}`).join(", ");
  }
  words() {
    return this.store.ui.filter.toLowerCase().split(/\s+/).filter(Boolean);
  }
  // The indices of the rows that pass filter and signs; null for all.
  passing(count, cells, insert) {
    const { ui, columns } = this.store;
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
    const at = passing ? (i) => passing[i] : (i) => i;
    const count = passing ? passing.length : rows.time.length;
    const sign = { name: "sign", label: "", title: "insert (+) or remove (−)", chars: 1, extra: 4 };
    const columns = [{ ...store.timeColumn, extra: 4 }, sign, ...store.columns.map((c) => ({ ...c, extra: 4 }))];
    columns[0].chars = Math.max(12, store.timeColumn.chars);
    const fill = (i, row, cells) => {
      const r = at(i);
      const first = i === 0 || rows.delivery[at(i - 1)] !== rows.delivery[r];
      const insert = rows.insert[r];
      setClass(row, `cv-row ${insert ? "cv-insert" : "cv-remove"}${first ? " cv-first" : ""}${i === this.tables.stream.top ? " cv-top" : ""}`);
      setText(cells[0], timeText(rows.time[r], store.withMillis));
      setText(cells[1], insert ? "+" : "−");
      store.columns.forEach((column, c) => fillCell(cells[c + 2], column, rows.cells[c][r]));
    };
    this.tables.stream.draw(columns, count, fill, store.rows.time.length ? "No row passes the filter." : "No rows yet.", store.ui.follow);
    const total = store.inserted + store.removed;
    const kept = rows.time.length;
    const parts = [passing ? `${numbers.format(count)} of ${plural(kept, "row")}` : plural(kept, "row")];
    if (total > kept && !this.held) parts.push(`${numbers.format(total - kept)} earlier rows not kept here`);
    if (this.held) parts.push("standing still while you read", `${numbers.format(total - this.held.next)} newer`);
    return total ? parts.join(" · ") : "";
  }
  drawWindow() {
    const { store } = this;
    const { window } = store;
    const passing = window ? this.passing(window.count, window.cells, null) : null;
    const count = window ? (passing ? passing.length : window.count) : 0;
    const columns = store.columns.map((c, i) => ({ ...c, extra: 4 + (i === 0 ? 1 : 0) }));
    const flash = window && performance.now() - window.at < FLASH;
    const fill = (i, row, cells) => {
      const r = passing ? passing[i] : i;
      setClass(row, flash && window.entered.has(r) ? `cv-row cv-flash-${window.generation % 2}` : "cv-row");
      store.columns.forEach((column, c) => fillCell(cells[c], column, window.cells[c][r]));
    };
    const nothing = !window ? "Reading …" : passing ? "No row passes the filter." : store.info.nothing;
    this.tables.window.draw(columns, count, fill, nothing);
    if (!window) return "";
    const parts = [passing ? `${numbers.format(count)} of ${plural(window.count, "row")}` : plural(window.total, "row")];
    if (window.total > window.count) parts.push(`the last ${numbers.format(window.count)} are shown`);
    return parts.join(" · ");
  }
  drawPartitions() {
    const { store } = this;
    const { partitions } = store;
    const { node } = this.tables.partitions;
    if (!partitions) {
      this.tables.partitions.draw([], 0, () => {}, partitions === null ? "This statement has no context." : "Reading …");
      return "";
    }
    const last = partitions.columns.length - 1;
    const columns = partitions.columns.map((c, i) => ({ ...c, extra: i === last ? 14 : 4 }));
    this.cursor = Math.min(this.cursor, Math.max(0, partitions.count - 1));
    const fill = (i, row, cells) => {
      const chosen = partitions.cells[0][i] === store.ui.partition;
      setClass(row, `cv-row cv-choice${i === this.cursor ? " cv-cursor" : ""}${chosen ? " cv-picked" : ""}`);
      setAttribute(row, "id", `${this.id}-p${i}`);
      setAttribute(row, "aria-selected", String(chosen));
      partitions.columns.forEach((column, c) => fillCell(cells[c], column, partitions.cells[c][i]));
      const share = `${((100 * partitions.cells[last][i]) / partitions.most).toFixed(1)}%`;
      if (cells[last].style.getPropertyValue("--cv-share") !== share) cells[last].style.setProperty("--cv-share", share);
      cells[last].classList.add("cv-size");
    };
    this.tables.partitions.draw(columns, partitions.count, fill, "No partition exists yet.");
    if (partitions.count) setAttribute(node, "aria-activedescendant", `${this.id}-p${this.cursor}`);
    const shown = partitions.total > partitions.count ? ` · the first ${numbers.format(partitions.count)} are shown` : "";
    return `${plural(partitions.total, "partition")}${shown}${partitions.count ? " · choose one to see its rows" : ""}`;
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
      const panel = new Panel(store, el);
      return () => panel.dispose();
    },
  };
};
