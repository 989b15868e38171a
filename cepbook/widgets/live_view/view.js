// The browser half of cepbook.widgets.live_view.statement_view: one Store (store.js) per widget model, one Panel per place where it is
// displayed. Only the visible rows are in the page. Uses table.js, tree.js, export.js, store.js and panes.js, which
// Python puts before this.

const HEAD = 28; // px: the heading of a table with its line

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
      window: new VirtualTable(this.store.info.results ? `${this.store.info.results.toLowerCase()}: the present rows of the statement` : "window contents"),
      events: new VirtualTable("events in the window"),
      partitions: new VirtualTable("context partitions", this.store.info.levels.length ? "treegrid" : "grid"),
      waiting: new VirtualTable("partial matches of the pattern", "grid"),
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
    this.filter.onfocus = () => this.prepare();
    this.filter.onblur = () => this.prepared && !this.filter.value && this.store.show();
    this.follow = make("button", { class: "cv-follow", type: "button", title: "scroll to the newest row" }, "Follow");
    this.follow.onclick = () => this.set({ follow: !this.store.ui.follow });
    this.chosen = make("button", { class: "cv-chosen", type: "button", title: "show all partitions" });
    this.chosen.onclick = () => this.choose(null);
    this.footer = make("div", { class: "cv-footer" });
    this.columnPanel = new ColumnPanel(this);
    root.append(
      make("div", { class: "cv-title" }, this.state, this.name, make("span", { class: "cv-space" }), this.clock),
      this.eplButton,
      make("div", { class: "cv-bar" }, this.tablist(), this.plus, this.minus, this.rate, make("span", { class: "cv-space" }),
        this.chosen, this.filter, this.columnPanel.button, this.follow),
      this.columnPanel.chips,
      this.columnPanel.node,
    );
    for (const [pane, table] of Object.entries(this.tables)) {
      const attributes = { id: `${this.id}-${pane}`, role: "tabpanel", "aria-labelledby": `${this.id}-${pane}-tab` };
      root.append(make("div", attributes, table.node));
      table.node.addEventListener("scroll", () => this.scrolled(pane), { passive: true });
    }
    for (const pane of ["stream", "window", "events", "partitions"]) this.tables[pane].onSort = (key) => this.sort(pane, key);
    this.exporter = new Exporter(this);
    this.seenRows = {};
    this.selections = {};
    for (const pane of ARRANGED) {
      this.tables[pane].onMove = (key, to) => this.columnPanel.move(key, to);
      this.selections[pane] = new Selection(this, pane, this.tables[pane]);
    }
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
    this.why = make("div", { class: "cv-why", hidden: "", role: "region", "aria-label": "why this row was delivered", "aria-live": "polite" }, close, this.whyText);
    this.again = make("button", { type: "button", class: "cv-again", hidden: "", title: "rewind the workbench, and replay what was replayed; events that were sent one by one are not repeated" }, "Replay again");
    this.again.onclick = () => {
      this.again.disabled = true;
      this.store.send({ kind: "again" });
    };
    root.append(this.again, make("div", { class: "cv-below" }, this.footer, this.exporter.node), this.why, this.still);
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
    if (change.follow === true) this.store.ui.before = null;
    if (this.store.searches && ["follow", "plus", "minus"].some((name) => name in change)) this.store.show();
    this.store.changed();
  }
  // Of a large window the page has the last rows only: the kernel looks through all of them, once the reader stops typing.
  seek() {
    this.set({ filter: this.filter.value });
    clearTimeout(this.seeking);
    const { pane } = this.store.ui;
    const shown = this.store[pane];
    if (pane === "stream") this.seeking = setTimeout(() => this.store.show(), 250);
    if (shown && pane !== "stream" && (this.store.ui.pane === "partitions" || shown.total > shown.sent || shown.found !== undefined)) {
      this.seeking = setTimeout(() => this.store.show(), 250);
    }
  }
  // The kernel reads the columns of a large window while the reader begins to type, and forgets them if nothing came.
  prepare() {
    const shown = this.store.ui.pane === "window" ? this.store.window : null;
    this.prepared = Boolean(shown) && !this.filter.value && shown.total > shown.sent;
    if (this.prepared) this.store.send({ kind: "prepare", client: this.store.client });
  }
  sort(pane, key) {
    this.store.sortBy(key);
    if (pane === "stream") this.tables.stream.node.scrollTop = 0; // it was at the newest row
  }
  // How a column is sorted: "" if not by it.
  sorting(pane, name) {
    const { by, down } = this.store.ui.sort[pane] ?? {};
    return by !== name ? "" : down ? "descending" : "ascending";
  }
  open(pane) {
    // The search text for partitions is separate from the search text for rows.
    if ((pane === "partitions") !== (this.store.ui.pane === "partitions")) this.filter.value = this.store.ui.filter = "";
    this.set({ pane });
    this.store.show();
  }
  choose(id) {
    const { ui, info } = this.store;
    ui.named = partitionName(this, id);
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
      if (entry?.number) this.toggle(entry, !entry.open);
      else if (entry) this.choose(this.store.partitions.cells[0][entry.row]);
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
    if (!(rows.delivery[r] >= 0)) return; // not sent yet
    this.set({ follow: false });
    this.store.why(rows.delivery[r], rowsBehind(rows, r), rows.insert[r]);
  }
  unexplain() {
    this.store.explained = null;
    this.store.changed();
  }
  toggle(line, open) {
    const { unfolded, folded } = this.store.ui;
    (open ? folded : unfolded).delete(line.number);
    (open ? unfolded : folded).add(line.number);
    this.store.show();
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
    const branch = pane === "partitions" && entries?.[at]?.number ? entries[at] : null;
    if (event.key in steps) {
      event.preventDefault();
      if (pane === "stream") this.set({ follow: false });
      // A cursor that is nowhere begins where the reader looks.
      const from = at < 0 ? this.tables[pane].top - 1 : at;
      this.cursors[pane] = Math.min(count - 1, Math.max(0, from + steps[event.key]));
      this.bring(pane, this.cursors[pane]);
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
      if (ui.sort.stream) return this.schedule(); // the newest row is not the last one
      if (ui.follow && !atBottom) this.set({ follow: false });
      else if (!ui.follow && atBottom) this.set({ follow: true });
    }
    this.schedule();
  }
  // What is selected stands still.
  freeze(pane) {
    const follows = pane === "stream" && this.store.ui.follow;
    if (follows) this.set({ follow: false });
    return follows;
  }
  rowCount(pane) {
    return (pane === "stream" ? this.seen : this.seenRows[pane])?.count ?? 0;
  }
  columnsOf(pane) {
    return pane === "stream" ? streamColumns(this) : rowColumns(this, pane);
  }
  shownColumns(pane) {
    return arranged(this.store.ui, pane, this.columnsOf(pane));
  }
  // The selected cells: their text if all are in the page, else what the kernel needs to know.
  selected(pane) {
    const selection = this.selections[pane];
    if (!selection?.any) return null;
    const { top, bottom, left, right } = selection.range;
    const columns = this.shownColumns(pane).slice(left, right + 1);
    const lines = [];
    for (let i = top; i <= bottom; i += 1) {
      const line = columns.map((c) => this.cellText(pane, c, i));
      if (line.includes(undefined)) break;
      lines.push(line.map((text) => (/["\t\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join("\t"));
    }
    const count = bottom - top + 1;
    if (lines.length === count) return { text: `${lines.join("\n")}\n`, rows: plural(count, "row") };
    return { columns: columns.map((c) => c.key), span: [top + this.skipped(pane), bottom + 1 + this.skipped(pane)] };
  }
  // The rows before the first one that can be scrolled to.
  skipped(pane) {
    const { ui, page } = this.store;
    const part = pane === "stream" ? page : this.store[pane];
    return !part || ui.sort[pane] ? 0 : (part.found ?? part.total) - part.count;
  }
  // A value of the page as text, as the kernel would write it; undefined if the page lacks it.
  cellText(pane, column, i) {
    const cell = make("div");
    if (pane === "stream") {
      const { rows, at } = this.seen;
      const r = at(i);
      if (this.entries.stream?.[i]?.line !== undefined) return "";
      if (!(rows.delivery[r] >= 0)) return undefined;
      if (column.key === this.store.info.added[1]) return rows.insert[r] ? "insert" : "remove";
      column.draw(cell, rows, r, "");
    } else {
      const table = this.store[pane];
      const r = this.seenRows[pane].at(i);
      if (!(r >= 0 && r < table.sent)) return undefined;
      fillCell(cell, column.column, table.cells[column.at][r]);
    }
    return cell.classList.contains("cv-null") ? "" : column.kind === "float" || column.kind === "int" ? cell.title : cell.textContent;
  }
  // Scroll so that a row is in sight.
  bring(pane, row) {
    const { node } = this.tables[pane];
    const top = row * ROW;
    if (top < node.scrollTop) node.scrollTop = top;
    if (top + 2 * ROW > node.scrollTop + node.clientHeight) node.scrollTop = top + 2 * ROW - node.clientHeight;
    this.schedule();
  }
  // The rows of a table that are in sight.
  visible(pane) {
    const { node } = this.tables[pane];
    return { first: Math.max(0, Math.floor(node.scrollTop / ROW)), rows: Math.ceil(node.clientHeight / ROW) + 1 };
  }
  need(pane, part) {
    const { first, rows } = this.visible(pane);
    const last = Math.min(part.count, first + rows);
    if (first < last && (first < part.first || last > part.first + part.sent)) this.store.look(pane, first);
  }
  // While the reader looks at older rows, what they look at stands still; the counters go on.
  hold() {
    this.store.ui.before = this.store.next;
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
      stream: () => drawStream(this),
      window: () => drawRows(this, "window", store.columns, store.info.nothing),
      events: () => drawRows(this, "events", store.events?.shown ?? [], "The window is empty, or keeps groups in place of events."),
      partitions: () => drawPartitions(this),
      waiting: () => drawWaiting(this),
    };
    const note = draw[ui.pane]();
    // No observer tells of what was hidden and is back within one frame.
    const hidden = !this.tables[ui.pane].node.clientHeight;
    if (hidden && !this.retried) setTimeout(() => this.schedule(), 100);
    this.retried = hidden;
    this.bringIntoSight();
    this.exporter.draw();
    this.columnPanel.draw();
    const again = Boolean(store.missed?.again);
    if (this.again.hidden === again) Object.assign(this.again, { hidden: !again, disabled: false });
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
    const state = store.unheard ? "silent" : idle ? "idle" : store.state;
    setText(this.state, store.unheard ? UNHEARD : state);
    setAttribute(this.state, "title", store.unheard ? SILENT : "");
    setAttribute(this.state, "data-state", state);
    setText(this.name, store.info.name);
    setClock(this.clock, store.clock);
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
    this.follow.hidden = ui.pane !== "stream" || (Boolean(ui.sort.stream) && ui.follow);
    this.chosen.hidden = ui.partition === null || !["window", "events", "waiting"].includes(ui.pane);
    if (!this.chosen.hidden) setText(this.chosen, `${partitionName(this, ui.partition)} ×`);
    this.filter.hidden = ui.pane === "waiting";
    setAttribute(this.filter, "placeholder", ui.pane === "partitions" ? "Filter partitions" : "Filter rows");
    for (const chip of [this.plus, this.minus]) {
      chip.disabled = ui.pane !== "stream";
      chip.hidden = !store.info.delivers; // a table has rows, and no stream
    }
  }
  // An opened row and what stands below it are shown as far as there is room.
  bringIntoSight() {
    const { reveal } = this;
    const entries = reveal && this.entries[reveal.pane];
    if (!entries || this.store.ui.pane !== reveal.pane) return;
    const first = entries.findIndex((entry) => entry?.key === reveal.key);
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
