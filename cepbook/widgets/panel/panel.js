// The browser half of cepbook.widgets.panel.workbench_panel, in a cell and in JupyterLab's sidebar. Details are HTML from Python, which
// escaped it; all else becomes text nodes. Uses table.js, which Python puts before this text.

const WIDE = 620; // px from which details stand beside the items

class CepPanel {
  constructor(model, el) {
    this.model = model;
    this.client = Math.random().toString(36).slice(2);
    this.state = {};
    this.closed = new Set();
    this.rows = new Map(); // by section and name
    this.selected = this.cursor = null;
    this.fresh = true;
    this.build(el);
    this.onMessage = (frame) => this.take(frame);
    model.on("msg:custom", this.onMessage);
    this.observer = new ResizeObserver(() => this.place());
    this.observer.observe(this.root);
    const hello = () => this.tell({ kind: "hello", client: this.client });
    hello();
    hearing(this.model, hello);
  }
  tell(message) {
    try {
      this.model.send(message);
    } catch (error) {
      console.debug("cepbook: no kernel to talk to", error);
    }
  }
  order(order, more = {}) {
    this.tell({ kind: "order", order, ...more });
  }
  build(el) {
    this.root = make("section", { class: "cepbook-panel", "aria-label": "contents of the workbench" });
    this.root.setAttribute("data-lm-suppress-shortcuts", "true");
    this.search = make("input", { class: "cc-search", type: "search", placeholder: "Search", "aria-label": "show only what contains these words" });
    this.search.oninput = () => {
      clearTimeout(this.seeking);
      this.seeking = setTimeout(() => this.order("search", { text: this.search.value }), 150);
    };
    this.clock = make("span", { class: "cc-clock", title: "engine time (UTC)" });
    this.step = make("button", { type: "button", title: "advance the clock by one second" }, "+1 s");
    this.step.onclick = () => this.order("advance");
    this.due = make("button", { type: "button" }, "Next due");
    this.due.onclick = () => this.order("due");
    this.map = make("button", { type: "button", title: "map of the data flow" }, "Map");
    this.map.onclick = () => this.open({ what: "map" }, "%epl map");
    this.note = make("div", { class: "cc-note", role: "status" });
    this.problem = make("div", { class: "cc-problem", role: "alert" });
    this.list = make("div", { class: "cc-list", role: "tree", "aria-label": "statements, types, contexts, stores, variables, errors" });
    this.detail = make("div", { class: "cc-detail", role: "region", "aria-label": "details", tabindex: "-1" });
    this.side = make("div", { class: "cc-side" });
    this.hint = make("div", { class: "cc-note" }, "Select an item to see its details.");
    this.side.append(this.hint);
    this.below = new Below(this.model);
    this.below.node.className = "cc-below";
    this.root.append(
      make("div", { class: "cc-head" }, this.search, make("div", { class: "cc-time" }, this.clock, this.step, this.due, this.map)),
      this.problem,
      this.note,
      make("div", { class: "cc-body" }, this.list, this.side),
      this.below.node,
    );
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => this.click(event));
    el.append(this.root);
  }
  take(frame) {
    if (frame?.kind !== "frame") return;
    Object.assign(this.state, frame);
    this.draw();
    this.tell({ kind: "ack", n: frame.n });
  }
  draw() {
    const { note, clock, due, busy, sections, said, detail } = this.state;
    setText(this.note, note ?? "");
    this.note.hidden = !note;
    setClock(this.clock, clock ?? "");
    this.due.disabled = !due || busy;
    this.step.disabled = Boolean(busy);
    setAttribute(this.due, "title", due ? `advance the clock to ${due}, the next due time` : "nothing is due");
    setText(this.problem, said?.clock ?? "");
    this.problem.hidden = !said?.clock;
    if (note) {
      this.list.replaceChildren();
      this.rows.clear();
      this.drawn = this.shown = null;
    } else if (sections && this.drawn !== sections) {
      this.drawn = sections;
      this.drawList(sections);
    }
    if (detail && !note && this.fresh) this.adopt(detail);
    this.fresh = false;
    this.drawDetail(note ? null : detail);
    this.drawSaid();
  }
  // Rows are made once and kept: what has the focus must not vanish under it.
  drawList(sections) {
    const before = this.rows;
    this.rows = new Map();
    const nodes = [];
    for (const section of sections) {
      if (!section.total) continue;
      const key = `\u0001${section.key}`;
      const open = !this.closed.has(section.key);
      const head = before.get(key) ?? this.makeRow(section.key, null, 1);
      this.rows.set(key, head);
      const count = section.found === section.total ? numbers.format(section.total) : `${numbers.format(section.found)} of ${numbers.format(section.total)}`;
      setText(head.parts[0], section.title);
      setText(head.parts[1], count);
      setText(head.parts[2], section.figure);
      setAttribute(head, "aria-expanded", String(open));
      nodes.push(head);
      if (section.key === "errors") {
        this.clear ??= this.clearButton();
        head.append(this.clear);
      }
      if (!open) continue;
      for (const [name, shown, kind, figure] of section.items) {
        const id = `${section.key}\u0001${name}`;
        const row = before.get(id) ?? this.makeRow(section.key, name, 2);
        this.rows.set(id, row);
        setText(row.parts[0], shown);
        setText(row.parts[1], kind);
        setText(row.parts[2], figure);
        setAttribute(row.parts[0], "title", shown);
        nodes.push(row);
      }
      if (section.found > section.items.length) {
        nodes.push(make("div", { class: "cc-note cc-more" }, `… ${numbers.format(section.found - section.items.length)} more: use the search`));
      }
    }
    if (!nodes.length) nodes.push(make("div", { class: "cc-note" }, this.search.value ? "No item matches." : "Nothing is deployed."));
    const wanted = this.narrow && this.selectedRow() ? this.withDetail(nodes) : nodes;
    const same = wanted.length === this.list.children.length && wanted.every((node, i) => this.list.children[i] === node);
    if (!same) {
      const active = document.activeElement;
      this.list.replaceChildren(...wanted);
      if (this.list.contains(active)) active.focus({ preventScroll: true });
    }
    this.roving();
  }
  withDetail(nodes) {
    const at = nodes.indexOf(this.selectedRow());
    return at < 0 ? nodes : [...nodes.slice(0, at + 1), this.detail, ...nodes.slice(at + 1)];
  }
  makeRow(section, name, level) {
    const row = make("div", { class: level === 1 ? "cc-section" : "cc-item", role: "treeitem", "aria-level": String(level), tabindex: "-1" });
    row.parts = [make("span", { class: "cc-name" }), make("span", { class: "cc-kind" }), make("span", { class: "cc-figure" })];
    row.append(...row.parts);
    row.section = section;
    row.item = name;
    if (level === 2) row.setAttribute("aria-selected", "false");
    if (section === "errors") row.classList.add("cc-failed");
    return row;
  }
  clearButton() {
    const button = make("button", { type: "button", class: "cc-clear", title: "clear these errors" }, "Clear");
    button.onclick = (event) => {
      event.stopPropagation();
      this.order("clear");
      this.search.focus();
    };
    return button;
  }
  selectedRow() {
    return this.selected && this.rows.get(`${this.selected.section}\u0001${this.selected.name}`);
  }
  items() {
    return [...this.rows.values()].filter((row) => row.isConnected);
  }
  // One item of the list can be reached by Tab; arrows go from there.
  roving() {
    const items = this.items();
    if (!items.includes(this.cursor)) this.cursor = items[0] ?? null;
    for (const row of items) setAttribute(row, "tabindex", row === this.cursor ? "0" : "-1");
  }
  focus(row) {
    if (!row) return;
    this.cursor = row;
    this.roving();
    row.focus();
  }
  click(event) {
    const row = event.target.closest(".cc-item, .cc-section");
    if (!row || this.detail.contains(event.target) || event.target.closest("button")) return;
    this.focus(row);
    this.act(row);
  }
  act(row) {
    if (row.item === null) this.fold(row, !this.closed.has(row.section));
    else this.select(this.selectedRow() === row ? null : row);
  }
  fold(row, closed) {
    if (closed) this.closed.add(row.section);
    else this.closed.delete(row.section);
    this.drawList(this.state.sections);
  }
  select(row) {
    this.selectedRow()?.setAttribute("aria-selected", "false");
    this.selected = row && { section: row.section, name: row.item };
    row?.setAttribute("aria-selected", "true");
    this.shown = null;
    this.detail.replaceChildren(make("div", { class: "cc-note" }, "Reading …"));
    this.place();
    this.order("select", this.selected ?? {});
  }
  // Where the panel was shown before, what was selected still is.
  adopt({ section, name }) {
    const row = this.rows.get(`${section}\u0001${name}`);
    if (!row) return;
    this.selected = { section, name };
    this.shown = null;
    this.cursor = row;
    row.setAttribute("aria-selected", "true");
    this.roving();
  }
  // Details stand beside the items where there is room, else below the selected one.
  place() {
    const narrow = this.root.clientWidth < WIDE;
    this.narrow = narrow;
    this.root.classList.toggle("cc-narrow", narrow);
    const row = this.selectedRow();
    this.hint.hidden = Boolean(row);
    if (!row) this.detail.remove();
    else if (narrow) {
      if (row.isConnected && row.nextSibling !== this.detail) row.after(this.detail);
    } else if (this.detail.parentNode !== this.side) this.side.append(this.detail);
  }
  drawDetail(detail) {
    const mine = detail && this.selected && detail.section === this.selected.section && detail.name === this.selected.name;
    if (!mine) {
      if (this.selected && this.drawn && !this.selectedRow()) {
        this.selected = this.shown = null;
        this.place();
      }
      return;
    }
    this.place();
    if (this.shown !== detail) {
      const first = this.shown === null;
      this.shown = detail;
      if (first) this.makeDetail(detail);
      if (this.html !== detail.html || first) this.figures.innerHTML = this.html = detail.html; // made and escaped by Python
      for (const pre of this.figures.querySelectorAll("pre.cc-code:not(.cc-error)")) pre.replaceChildren(...highlighted(pre.textContent));
      if (this.field && document.activeElement !== this.field) this.field.value = detail.field?.value ?? "";
    }
  }
  makeDetail(detail) {
    this.field = this.fieldError = null;
    this.figures = make("div", {});
    const parts = [this.figures];
    if (detail.field) parts.unshift(this.makeField(detail));
    if (detail.plan) {
      const plan = make("details", { class: "cc-plan" }, make("summary", {}, "Plan"), make("pre", { class: "cc-code" }, detail.plan));
      parts.push(plan);
    }
    if (detail.opens) {
      const { name, line, why } = detail.opens;
      const view = make("button", { type: "button" }, "Live view");
      view.onclick = () => this.open({ what: "view", name }, line);
      const buttons = [view];
      const map = make("button", { type: "button" }, "Map");
      map.onclick = () => this.open({ what: "map" }, "%epl map");
      buttons.push(map);
      if (detail.section === "statements") setAttribute(view, "title", `${line}; why its rows were delivered: ${why}`);
      parts.push(make("div", { class: "cc-buttons" }, ...buttons));
    }
    this.detail.replaceChildren(...parts);
  }
  makeField({ name, field }) {
    this.field = make("input", { class: "cc-value", "aria-label": `value of ${name}, ${field.type}`, spellcheck: "false" });
    this.field.value = field.value;
    this.fieldError = make("div", { class: "cc-problem", role: "alert" });
    const button = make("button", { type: "button" }, "Set");
    button.onclick = () => this.order("set", { name, text: this.field.value });
    this.field.onkeydown = (event) => {
      if (event.key === "Enter") button.click();
    };
    return make("div", { class: "cc-form" }, this.field, make("span", { class: "cc-kind" }, field.type), button, this.fieldError);
  }
  drawSaid() {
    if (!this.field || !this.selected) return;
    const wrong = this.state.said?.[this.selected.name] ?? "";
    setText(this.fieldError, wrong);
    this.fieldError.hidden = !wrong;
    setAttribute(this.field, "aria-invalid", String(Boolean(wrong)));
  }
  // Where somebody runs lines in a cell of the notebook (the sidebar) that is done; else it is shown below.
  open(what, line) {
    const event = new CustomEvent("cepbook-run", { bubbles: true, cancelable: true, detail: line });
    if (!this.root.dispatchEvent(event)) return;
    this.below.requested = true;
    this.order("open", what);
  }
  key(event) {
    const inField = event.target.matches("input");
    if (event.key === "Escape") {
      if (this.selected) {
        event.preventDefault();
        const row = this.selectedRow();
        this.select(null);
        this.focus(row);
      } else if (this.search.value && (event.target === this.search || !inField)) {
        this.search.value = "";
        this.search.oninput();
      }
      return;
    }
    if (event.key === "/" && !inField) {
      event.preventDefault();
      this.search.focus();
      return;
    }
    const items = this.items();
    const row = event.target.closest?.("[role=treeitem]");
    if (event.target === this.search && event.key === "ArrowDown") {
      event.preventDefault();
      this.focus(items.find((each) => each.item !== null) ?? items[0]);
      return;
    }
    if (!row || event.target !== row) return;
    const at = items.indexOf(row);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      if (to < 0) this.search.focus();
      else this.focus(items[Math.min(to, items.length - 1)]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.act(row);
    } else if (event.key === "ArrowRight") {
      event.preventDefault();
      if (row.item === null) this.fold(row, false);
      else if (this.selectedRow() !== row) this.select(row);
      else this.detail.querySelector("input, button, summary")?.focus();
    } else if (event.key === "ArrowLeft") {
      event.preventDefault();
      if (row.item === null) this.fold(row, true);
      else if (this.selectedRow() === row) this.select(null);
      else this.focus(this.rows.get(`\u0001${row.section}`));
    }
  }
  dispose() {
    this.observer.disconnect();
    clearTimeout(this.seeking);
    this.model.off("msg:custom", this.onMessage);
    this.below.dispose();
    this.tell({ kind: "bye", client: this.client });
  }
}

export default () => {
  const places = new Places();
  return { render: ({ model, el }) => places.add(el, new CepPanel(model, el)) };
};
