// What the kernel sent to a statement view. A frame is acknowledged after it was drawn, which is the back-pressure.
// Python puts this text before view.js.

const ACK_AT_LATEST = 200; // ms; a hidden page draws nothing but must not stall the stream
const AHEAD = 40; // rows above and below those in sight that are there as well

class Store {
  constructor(model) {
    this.model = model;
    this.panels = new Set();
    this.sites = new Places();
    this.client = Math.random().toString(36).slice(2);
    this.ui = { pane: "stream", partition: null, follow: true, filter: "", plus: true, minus: true, epl: false };
    this.ui.opened = new Set(); // expanded items: deliveries with the position of a row, partial matches
    this.ui.sort = {}; // by pane: {by, down}
    Object.assign(this.ui, { conditions: {}, hidden: {}, order: {} }); // of columns, by pane
    this.ui.before = null; // the delivery before which a search of the stream ends, while the reader reads
    this.requests = 0;
    this.restore();
    Object.assign(this.ui, { unfolded: new Set(), folded: new Set() }); // nodes of the tree, by number
    this.described();
    this.onMessage = (message, buffers) => {
      if (message?.kind === "frame") this.receive(message, buffers);
      if (message?.kind === "download") for (const panel of this.panels) panel.exporter.take(message, buffers);
    };
    this.onInfo = () => {
      this.described();
      for (const panel of this.panels) panel.renew();
      this.changed();
      if (this.panels.size) this.hello();
    };
    model.on("msg:custom", this.onMessage);
    model.on("change:info", this.onInfo);
    this.beat = setInterval(() => this.decay(), 500);
    this.born = performance.now();
    this.answered = false;
  }
  // Only what is displayed somewhere costs frames.
  attach(panel) {
    this.panels.add(panel);
    if (this.panels.size > 1) return;
    this.hello();
    if (!this.answered) hearing(this.model, () => this.hello());
  }
  detach(panel) {
    this.panels.delete(panel);
    if (this.panels.size === 0) this.send({ kind: "bye", client: this.client });
  }
  // A saved notebook may hold the widget's state but has no kernel: then the last static picture is all there is.
  get still() {
    return !this.answered && performance.now() - this.born > 1500 ? this.model.get("snapshot") : "";
  }
  // So far: while the kernel is busy with another cell, or for ever.
  get unheard() {
    return !this.answered && performance.now() - this.born > PATIENCE;
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
    Object.assign(this, { inserted: 0, removed: 0, rate: 0, heard: 0, fresh: true, problem: "", missed: null });
    Object.assign(this, { window: null, events: null, partitions: undefined, waiting: null, found: null, generation: 0 });
    if (!this.panes.includes(this.ui.pane)) this.ui.pane = this.panes[0];
    this.clear();
  }
  get panes() {
    const { context, waits, results, delivers } = this.info;
    const kept = results ? ["window", "events"] : ["window"];
    return [...(delivers ? ["stream"] : []), ...kept, ...(context ? ["partitions"] : []), ...(waits ? ["waiting"] : [])];
  }
  // What a pane is called: rows that are made of the events in the window have a pane of their own.
  label(pane) {
    const { results, delivers } = this.info;
    if (pane === "events") return "Window";
    if (!delivers && pane === "window") return "Rows";
    return pane === "window" && results ? results : pane[0].toUpperCase() + pane.slice(1);
  }
  clear() {
    this.next = 0;
    this.matches = new Map(); // by delivery: the lines of its matches
    this.asked = new Set(); // deliveries, since the last frame
    this.rows = { time: [], insert: [], delivery: [], cells: this.columns.map(() => []) };
  }
  // What the reader chose stays when the page is loaded again.
  get memory() {
    return `cepbook ${this.model.get("own")}`;
  }
  remember() {
    const { filter, conditions, sort, hidden, order, plus, minus } = this.ui;
    try {
      sessionStorage.setItem(this.memory, JSON.stringify({ filter, conditions, sort, hidden, order, plus, minus }));
    } catch (error) {
      console.debug("cepbook: the page remembers nothing", error);
    }
  }
  restore() {
    try {
      Object.assign(this.ui, JSON.parse(sessionStorage.getItem(this.memory)));
    } catch (error) {
      console.debug("cepbook: the page remembers nothing", error);
    }
  }
  hello() {
    this.fresh = true;
    this.send({ kind: "hello", client: this.client });
    this.show();
  }
  show() {
    const { pane, partition } = this.ui;
    this.remember();
    const folds = this.info.levels.length ? { opened: [...this.ui.unfolded], shut: [...this.ui.folded] } : {};
    const tail = pane === "stream" && this.ui.follow && !this.ui.sort.stream;
    this.send({ kind: "show", client: this.client, pane, partition, ...this.places(pane), ...this.choice(pane), tail, request: this.request, ...folds });
  }
  // Which rows the reader wants of a pane, and in which order.
  choice(pane) {
    const { filter, conditions, sort, plus, minus, before } = this.ui;
    const signs = pane === "stream" ? { plus, minus, before } : {};
    return { filter, conditions: conditions[pane] ?? {}, ...sort[pane], ...signs };
  }
  // The stream is searched or sorted, by the kernel: the page has its last rows only.
  get searches() {
    const { filter, conditions, sort, plus, minus } = this.ui;
    return Boolean(filter.trim() || Object.keys(conditions.stream ?? {}).length || sort.stream || !plus || !minus);
  }
  get page() {
    return this.searches && this.found?.request === this.request ? this.found : null;
  }
  // A request has a name that changes with what is asked for, so that an answer to a former one is not taken for it.
  get request() {
    const { before, ...wanted } = this.choice("stream");
    const mark = JSON.stringify(wanted);
    if (this.mark !== mark) Object.assign(this, { mark, requests: this.requests + 1 });
    return `${this.client}-${this.requests}`;
  }
  // Ask the kernel for other rows of this pane.
  ask() {
    this.show();
    this.changed();
  }
  problems(pane) {
    const answer = pane === "stream" ? this.page : this[pane];
    return answer?.problems ?? {};
  }
  // Which rows of a table can be seen now, or soon: only these are read and sent.
  places(pane) {
    const spans = [...this.panels].map((panel) => panel.visible(pane));
    if (!spans.length) return {};
    const first = Math.max(0, Math.min(...spans.map((span) => span.first)) - AHEAD);
    return { first, rows: Math.max(...spans.map((span) => span.first + span.rows)) + AHEAD - first };
  }
  // Some visible rows were not sent yet. Request them, at most once until the answer arrives.
  look(pane, first) {
    const wanted = `${pane} ${first}`;
    if (this.looking === wanted) return;
    this.looking = wanted;
    setTimeout(() => this.show(), 50);
  }
  // Once up, once down, then as it comes.
  sortBy(by) {
    const { pane, sort } = this.ui;
    const now = sort[pane];
    sort[pane] = now?.by !== by ? { by, down: false } : now.down ? undefined : { by, down: true };
    if (pane === "stream") Object.assign(this.ui, { follow: true, before: null });
    this.ask();
  }
  // Why a row was delivered is computed when somebody asks: the row is known by its delivery and by how many of its side
  // follow there, because the first rows of a delivery may have been cut.
  why(delivery, behind, insert) {
    this.explained = { html: "Reading …" };
    this.send({ kind: "why", client: this.client, delivery, behind, insert });
    this.changed();
  }
  // The events of a delivery's matches are sent when somebody wants to see them; asked for once in a frame, as Python
  // answers a number of questions at a time.
  expand(delivery) {
    if (this.matches.has(delivery) || this.asked.has(delivery)) return;
    this.asked.add(delivery);
    this.send({ kind: "expand", client: this.client, delivery });
  }
  receive(frame, buffers) {
    this.answered = true;
    if (this.feed !== undefined && this.feed !== frame.feed) this.leave();
    this.feed = frame.feed;
    this.clock = frame.clock;
    this.state = frame.state;
    this.replaying = frame.replaying === true;
    this.problem = frame.problem ?? "";
    this.missed = frame.missed ?? null; // why there are no rows, if all events came before the statement
    if (frame.stream) this.stream(frame.stream, buffers);
    if (frame.counts) this.counted(frame.counts);
    if (frame.window || frame.events || frame.partitions) this.looking = null;
    if (frame.window) this.window = this.contents(frame.window, this.window, this.columns, buffers);
    if (frame.events) this.events = this.contents(frame.events, this.events, columnsOf(frame.events.names, this.events?.shown), buffers);
    if (frame.partitions !== undefined) this.listed(frame.partitions, buffers);
    if (frame.waiting) this.awaited(frame.waiting, buffers);
    if (frame.why) this.explained = frame.why;
    if (frame.found) this.searched(frame.found, buffers);
    for (const match of frame.matches ?? []) this.matches.set(match.delivery, match);
    this.asked.clear();
    this.changed();
    if (frame.quiet) return; // hearing an answer costs the kernel more than the frame did
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
  }
  searched(page, buffers) {
    const [time, insert, delivery, behind] = ["time", "insert", "delivery", "behind"].map((part) => decode(page[part], buffers));
    const cells = page.columns.map((column) => decode(column, buffers));
    this.columns.forEach((column, i) => column.learn(cells[i]));
    this.withMillis ||= time.some((ms) => ms % 1000 !== 0);
    this.found = { ...page, time, insert, delivery, behind, cells, sent: time.length };
    this.looking = null;
  }
  counted({ inserted, removed }) {
    this.measure(inserted + removed - this.inserted - this.removed);
    Object.assign(this, { inserted, removed });
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
    if (this.still || this.unheard) this.changed();
    if (this.rate && performance.now() - this.heard > 1500) {
      this.rate = 0;
      this.changed();
    }
  }
  contents(window, former, columns, buffers) {
    const cells = window.columns.map((column) => decode(column, buffers));
    columns.forEach((column, i) => column.learn(cells[i]));
    const sent = cells[0]?.length ?? 0; // the rows from window.first on
    const before = former?.partition === window.partition && former.first === window.first ? former.keys : null;
    const keys = Array.from({ length: sent }, (_, r) => cells.map((values) => values[r]).join("\u0001"));
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
    if (entered.size > Math.max(3, sent / 2)) entered.clear();
    this.generation += 1;
    return { ...window, sent, shown: columns, cells, keys, entered, generation: this.generation, at: performance.now() };
  }
  listed(partitions, buffers) {
    if (!partitions) return void (this.partitions = null);
    const columns = columnsOf(partitions.names, this.partitions?.columns);
    const cells = partitions.columns.map((column) => decode(column, buffers));
    columns.forEach((column, i) => column.learn(cells[i]));
    const former = this.partitions?.bar === partitions.bar ? this.partitions.most : 1; // of rows that are out of sight
    const most = Math.max(former, ...(partitions.bar === null ? [] : cells[partitions.bar]));
    const lines = partitions.tree ? treeLines(partitions.tree, buffers) : null;
    // Width of each name column, by level of the tree. It only grows, so that nothing jumps.
    const wide = Math.max(24, this.partitions?.wide ?? 0, ...(lines ?? []).map(({ row, depth }) => cells[1][row].length + 3 * depth + 3));
    this.partitions = { ...partitions, sent: cells[0]?.length ?? 0, columns, cells, most, lines, wide: Math.min(70, wide) };
  }
  awaited(waiting, buffers) {
    const columns = columnsOf(waiting.names, this.waiting?.columns);
    const cells = waiting.columns.map((column) => decode(column, buffers));
    columns.forEach((column, i) => column.learn(cells[i]));
    const keys = Array.from({ length: waiting.count }, (_, r) => [...cells.map((values) => values[r]), ...waiting.lines[r]].join("\u0001"));
    this.waiting = { ...waiting, columns, cells, keys };
  }
  // Another instant is shown, or another deployment: the selected row and its explanation go with the old one. What is
  // open stays open, and its events are asked for again.
  leave() {
    this.ui.follow = true;
    this.ui.before = null;
    this.explained = null;
    for (const panel of this.panels) panel.cursors.stream = -1;
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

// The columns of a table, those that it had before if they are the same: they know how wide their values are.
function columnsOf(names, before) {
  const same = before?.length === names.length && names.every((c, i) => before[i].name === c.name && before[i].kind === c.kind);
  return same ? before : names.map((c) => new Column(c));
}

// The lines of the match that made the insert row with `later` rows behind it, or of all matches of its delivery.
function linesOf(found, later) {
  if (!found.matches.length) return [found.nothing];
  if (found.rows) return found.matches[found.matches.length - 1 - later];
  const heading = (i) => (found.matches.length > 1 ? [`match ${i + 1} of ${found.total}`] : []);
  return found.matches.flatMap((lines, i) => [...heading(i), ...lines]);
}
