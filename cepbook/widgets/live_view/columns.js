// The columns of a table as the reader arranges them: hidden, moved, and with conditions that the kernel tests.
// Python puts this text before view.js.

const ARRANGED = ["stream", "window", "events"]; // the panes whose columns can be arranged
const EXAMPLES = {
  int: "> 100 · 10 .. 20 · null",
  float: "> 100 · 10 .. 20 · null",
  bool: "true · null",
  time: "2013-07-01 .. 2013-07-02 · > 10:00",
  text: "part · = whole · a or b · null",
};

// The columns {key, …} of a pane in the reader's order, without those that are hidden.
function arranged(ui, pane, columns) {
  const order = ui.order[pane] ?? [];
  const place = (c) => (order.includes(c.key) ? order.indexOf(c.key) : order.length);
  const hidden = ui.hidden[pane] ?? [];
  const sorted = columns.map((c, i) => ({ c, i })).sort((a, b) => place(a.c) - place(b.c) || a.i - b.i);
  return sorted.map(({ c }) => c).filter((c) => !hidden.includes(c.key));
}

class ColumnPanel {
  constructor(panel) {
    this.panel = panel;
    this.store = panel.store;
    const id = `${panel.id}-columns`;
    this.button = make("button", { type: "button", class: "cv-columns-button", "aria-expanded": "false", "aria-controls": id }, "Columns");
    this.button.title = "conditions on columns; hide and move columns";
    this.button.onclick = () => this.toggle();
    this.list = make("ul", { class: "cv-columns-list" });
    const reset = make("button", { type: "button", class: "cv-columns-button" }, "Reset");
    reset.title = "show all columns in their order, without conditions";
    reset.onclick = () => this.reset();
    this.note = make("span", { class: "cv-columns-note" }, "Conditions: > 100, 10 .. 20, part of a text, = 'text', null, not null, 2013-07-01 .. 2013-07-02; and, or");
    this.node = make("div", { id, class: "cv-columns", role: "group", "aria-label": "columns", hidden: "" }, this.list, make("div", { class: "cv-columns-foot" }, this.note, reset));
    this.node.onkeydown = (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.toggle();
      this.button.focus();
    };
    this.chips = make("div", { class: "cv-conditions", role: "group", "aria-label": "conditions", hidden: "" });
  }
  get pane() {
    return this.store.ui.pane;
  }
  get columns() {
    return this.panel.columnsOf(this.pane);
  }
  toggle() {
    this.node.hidden = !this.node.hidden;
    setAttribute(this.button, "aria-expanded", String(!this.node.hidden));
    this.drawn = null;
    this.draw();
    if (!this.node.hidden) this.list.querySelector("input[type=text]")?.focus();
  }
  reset() {
    const { ui } = this.store;
    delete ui.order[this.pane];
    delete ui.hidden[this.pane];
    delete ui.conditions[this.pane];
    this.drawn = null;
    this.store.ask();
  }
  // In the reader's order, hidden ones too.
  get all() {
    const { ui } = this.store;
    return arranged({ order: ui.order, hidden: {} }, this.pane, this.columns);
  }
  hide(key, hidden) {
    const { ui } = this.store;
    const now = new Set(ui.hidden[this.pane]);
    if (hidden) now.add(key);
    else now.delete(key);
    if (now.size === this.columns.length) now.delete(key); // one stays
    ui.hidden[this.pane] = [...now];
    this.store.ask();
  }
  // Column `key` goes to the place of `to`.
  move(key, to) {
    const keys = this.all.map((c) => c.key);
    const place = keys.indexOf(to);
    if (place < 0 || key === to) return;
    keys.splice(keys.indexOf(key), 1);
    keys.splice(place, 0, key);
    this.store.ui.order[this.pane] = keys;
    this.store.ask();
  }
  step(key, by) {
    const keys = this.all.map((c) => c.key);
    const to = keys[keys.indexOf(key) + by];
    if (to !== undefined) this.move(key, to);
  }
  test(key, text) {
    const { ui } = this.store;
    const { [key]: _, ...others } = ui.conditions[this.pane] ?? {};
    ui.conditions[this.pane] = text.trim() ? { ...others, [key]: text } : others;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.store.ask(), 250);
    this.store.changed();
  }
  draw() {
    const { ui } = this.store;
    const usable = ARRANGED.includes(this.pane) && this.columns.length > 0;
    this.button.hidden = !usable;
    if (!usable) this.node.hidden = this.chips.hidden = true;
    if (!usable) return;
    const conditions = ui.conditions[this.pane] ?? {};
    const problems = this.store.problems(this.pane);
    this.drawChips(conditions, problems);
    if (this.node.hidden) return;
    const mark = JSON.stringify([this.pane, this.all.map((c) => [c.key, c.kind])]);
    if (this.drawn !== mark) this.fill(mark);
    const hidden = ui.hidden[this.pane] ?? [];
    for (const { key, box, input, problem } of this.lines) {
      box.checked = !hidden.includes(key);
      if (document.activeElement !== input && input.value !== (conditions[key] ?? "")) input.value = conditions[key] ?? "";
      setText(problem, problems[key] ?? "");
      setAttribute(input, "aria-invalid", String(key in problems));
    }
  }
  fill(mark) {
    this.drawn = mark;
    const active = document.activeElement?.dataset?.cvColumn;
    this.lines = this.all.map((c) => this.line(c));
    this.list.replaceChildren(...this.lines.map((line) => line.node));
    if (active) this.list.querySelector(`[data-cv-column=${CSS.escape(active)}]`)?.focus();
  }
  line({ key, name, kind, untested }, i) {
    const label = plain(name);
    const box = make("input", { type: "checkbox", "aria-label": `show ${label}` });
    box.dataset.cvColumn = `${key} shown`; // keeps the focus when the lines are drawn anew
    box.onchange = () => this.hide(key, !box.checked);
    const problem = make("span", { id: `${this.panel.id}-problem-${i}`, class: "cv-problem", "aria-live": "polite" });
    const input = make("input", { type: "text", class: "cv-condition", placeholder: EXAMPLES[kind] ?? EXAMPLES.text, spellcheck: "false", autocomplete: "off" });
    input.disabled = untested === true; // + and − have buttons of their own
    if (untested) input.placeholder = "";
    setAttribute(input, "aria-label", `condition on ${label}`);
    setAttribute(input, "aria-describedby", problem.id);
    input.oninput = () => this.test(key, input.value);
    const step = (by, sign, where) => {
      const button = make("button", { type: "button", class: "cv-step", title: `move ${label} ${where}`, "aria-label": `move ${label} ${where}` }, sign);
      button.dataset.cvColumn = `${key} ${by}`;
      button.onclick = () => this.step(key, by);
      return button;
    };
    const shown = make("label", { class: "cv-column-name", title: label }, box, label);
    input.dataset.cvColumn = key;
    const node = make("li", { class: "cv-column" }, shown, input, step(-1, "‹", "left"), step(1, "›", "right"), problem);
    return { key, box, input, problem, node };
  }
  // The conditions in short, each with its removal, while the panel is shut.
  drawChips(conditions, problems) {
    const entries = this.node.hidden ? Object.entries(conditions) : [];
    const mark = JSON.stringify([entries, problems]);
    if (this.chipped === mark) return;
    this.chipped = mark;
    this.chips.hidden = !entries.length;
    this.chips.replaceChildren(
      ...entries.map(([key, text]) => {
        const chip = make("button", { type: "button", class: "cv-condition-chip", title: problems[key] ?? "remove this condition" }, `${plain(key)} ${plain(text)} ×`);
        if (key in problems) chip.classList.add("cv-wrong");
        chip.onclick = () => {
          this.test(key, "");
          this.button.focus();
        };
        return chip;
      }),
    );
  }
}
