// The browser half of cepbook.widgets.live_bar.live_control. Buttons send orders; the sources obey in the kernel's loop.
// Uses hearing.js, table.js and control.js, which Python puts before this text. All texts become text nodes.

const COLUMNS = [
  { name: "source", label: "source", text: (row) => row.source },
  { name: "state", label: "state", text: (row) => row.state },
  { name: "events", label: "events", right: true, text: (row) => numbers.format(row.events) },
  { name: "rate", label: "per second", right: true, text: (row) => (row.rate ? compact.format(row.rate) : "") },
  { name: "age", label: "last item", right: true, text: (row) => (ENDED.includes(row.state) ? "" : ageText(row.age)) },
  { name: "buffered", label: "waiting", right: true, title: "events that wait for earlier ones", text: (row) => some(row.buffered) },
  { name: "late", label: "late", right: true, bad: true, text: (row) => some(row.late) },
  { name: "rejected", label: "rejected", right: true, bad: true, text: (row) => some(row.rejected) },
  { name: "reconnections", label: "reconnected", right: true, title: "how often, and seconds without a connection", text: gapText },
];

function some(count) {
  return count ? numbers.format(count) : "";
}

function part(rows, count) {
  return rows.length < count ? `, ${numbers.format(rows.length)} listed` : "";
}

function gapText(row) {
  return row.reconnections ? `${numbers.format(row.reconnections)} (${compact.format(row.gap)} s)` : "";
}

function ageText(seconds) {
  if (seconds === null || seconds === undefined) return "none yet";
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s ago`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
}

// A table whose rows are kept, so that a selection in it and the focus stay when a frame comes. Its roles are named, because
// in a narrow page it is drawn as blocks, and a browser then no longer takes it for a table.
class KeptTable {
  constructor(label, columns) {
    this.columns = columns;
    const head = make("tr", { role: "row" });
    for (const { label: text, right, title } of columns) {
      head.append(make("th", { role: "columnheader", scope: "col", class: right ? "cp-right" : "", ...(title ? { title } : {}) }, text));
    }
    this.said = columns[0].name === "source";
    if (this.said) head.append(make("th", { role: "columnheader", scope: "col" }, "last report"));
    this.body = make("tbody", { role: "rowgroup" });
    this.node = make("table", { role: "table", "aria-label": label, class: "cp-table" }, make("thead", { role: "rowgroup" }, head), this.body);
  }
  draw(rows) {
    while (this.body.children.length > rows.length) this.body.lastChild.remove();
    rows.forEach((row, at) => {
      if (at >= this.body.children.length) this.body.append(this.line());
      const line = this.body.children[at];
      setAttribute(line, "data-state", row.state ?? "");
      this.columns.forEach((column, number) => {
        const text = column.text ? column.text(row) : String(row[column.name] ?? "");
        const cell = line.children[number];
        setText(cell.lastChild, text);
        cell.classList.toggle("cp-none", text === "");
        cell.classList.toggle("cp-bad", Boolean(column.bad) && text !== "");
      });
      const note = line.children[this.columns.length];
      if (note) {
        setText(note.lastChild, row.note ?? "");
        note.hidden = !row.note;
      }
    });
  }
  line() {
    const line = make("tr", { role: "row" });
    for (const { label, right, name } of this.columns) {
      const cell = make("td", { role: "cell", class: `cp-of-${name}${right ? " cp-right" : ""}` });
      cell.append(make("span", { class: "cp-label", "aria-hidden": "true" }, label), make("span", { class: "cp-value" }));
      line.append(cell);
    }
    if (this.said) line.append(make("td", { role: "cell", class: "cp-said" }, make("span")));
    return line;
  }
}

// A list that is closed until somebody opens it. `open` remembers that for all places of the widget.
class Details {
  constructor(label, columns, open) {
    this.summary = make("summary");
    this.table = new KeptTable(label, columns);
    this.node = make("details", {}, this.summary, this.table.node);
    this.node.open = open.has(label);
    this.node.ontoggle = () => (this.node.open ? open.add(label) : open.delete(label));
  }
  draw(text, rows) {
    this.node.hidden = !rows.length;
    setText(this.summary, text);
    this.table.draw(rows);
  }
}

function show(control, el) {
  control.open ??= new Set();
  const state = make("span", { class: "cp-state", role: "status" });
  const count = make("span", { class: "cp-count" });
  const rate = make("span", { class: "cp-rate", title: "events per second" });
  const troubles = make("span", { class: "cp-troubles" });
  const clock = make("span", { class: "cp-clock", title: "engine time (UTC)" });
  const pause = orderButton("Pause", "take no more items, or go on", () =>
    control.order(control.frame.state === "paused" ? "resume" : "pause"),
  );
  const stop = orderButton("Stop", "close all sources", () => control.order("stop"));
  const root = make("section", { class: "cepbook-progress cepbook-live", "aria-label": "live sources" });
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const note = make("div", { class: "cp-note" });
  const table = new KeptTable("sources", COLUMNS);
  const more = make("div", { class: "cp-more" });
  const rejections = new Details("rejected items", [
    { name: "from", label: "source", text: (row) => row.source },
    { name: "count", label: "items", right: true, text: (row) => numbers.format(row.count) },
    { name: "reason", label: "reason" },
    { name: "latest", label: "latest item" },
  ], control.open);
  const losses = new Details("lost connections", [
    { name: "lost", label: "lost (UTC)", text: (row) => row["lost (UTC)"] },
    { name: "from", label: "source", text: (row) => row.source },
    { name: "gap", label: "connected after", right: true },
    { name: "reason", label: "reason" },
  ], control.open);
  const space = make("span", { class: "cp-space" });
  root.append(make("div", { class: "cp-line" }, state, count, rate, troubles, space, clock, pause, stop), note);
  root.append(table.node, more, rejections.node, losses.node);
  el.append(root);
  const draw = () => {
    const { sources, events, state: now, rejections: rejected, losses: lost } = control.frame;
    const ended = ENDED.includes(now);
    setText(state, control.silent ? UNHEARD : now);
    setAttribute(state, "title", control.silent ? SILENT : "");
    setAttribute(root, "data-state", control.silent ? "silent" : now);
    setText(count, plural(events, "event"));
    setText(rate, control.frame.rate ? `${compact.format(control.frame.rate)} ev/s` : "");
    setText(troubles, control.frame.troubles);
    setText(note, control.frame.note);
    note.hidden = !control.frame.note;
    setClock(clock, control.frame.clock);
    setText(pause, now === "paused" ? "Resume" : "Pause");
    for (const node of [pause, stop]) node.disabled = ended;
    table.node.hidden = !sources.length;
    table.draw(sources);
    setText(more, control.frame.more ? `and ${plural(control.frame.more, "source")} more: live.sources` : "");
    const { rejected: items, reasons, lost: times } = control.frame;
    rejections.draw(`${plural(items, "rejected item")}: ${plural(reasons, "reason")}${part(rejected, reasons)}`, rejected);
    losses.draw(`${plural(times, "lost connection")}${part(lost, times)}`, lost);
  };
  control.attach(draw);
  draw();
  return { dispose: () => control.detach(draw) };
}

const NOTHING = { events: 0, rate: 0, state: "", clock: "", troubles: "", note: "", sources: [], more: 0, rejected: 0, reasons: 0, rejections: [], lost: 0, losses: [] };

export default () => barModule(NOTHING, show);
