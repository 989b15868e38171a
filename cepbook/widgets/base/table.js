// What the widgets of cepbook share: small things, columns, and a table that draws only its visible rows.
// Python puts this text before view.js or replay_control.js; the two together are one ES module.

const ROW = 22; // height of a row in px, as in view.css
const numbers = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const KEYWORDS = new Set(
  ("select from where group by having order output insert into istream irstream rstream distinct as and or not in " +
    "between like regexp is null on create schema context window table variable partition by inner left right full " +
    "outer join unidirectional pattern every until match_recognize measures define case when then else end limit " +
    "offset first last all every snapshot events desc asc initiated terminated start inherits exists prev prior " +
    "true false update set delete merge matched for after").split(" "),
);

// ---- small things -------------------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// A time of the clock: the zone stands behind a date, not behind the time since a clock began at 0.
function setClock(node, text) {
  setText(node, text);
  setAttribute(node, "data-zone", /^-?\d{4,}-/.test(text) ? " UTC" : "");
}

// What would turn or hide the text beside it, as its number: `printable` of cepbook.errors does the same to values.
function plain(text) {
  const number = (c) => (c < "\u0100" ? "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0") : "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]/g, number);
}

// Where a widget is drawn. When JupyterLab draws an output anew that was updated it throws the element of the former view
// out of the page, and never tells that view: whoever is drawn next finds it, and ends it.
class Places {
  constructor() {
    this.all = new Set();
  }
  // `shown` has a `dispose`; gives the function that calls it, at most once, and keeps nothing of it.
  add(el, shown) {
    if ([...this.all].some(thrownOut)) setTimeout(() => this.sweep(), 2000); // an element that is removed now may come back
    const place = { el, shown };
    this.all.add(place);
    return () => this.end(place);
  }
  sweep() {
    for (const place of [...this.all].filter(thrownOut)) this.end(place);
  }
  end(place) {
    if (!this.all.delete(place)) return;
    const { el, shown } = place;
    place.el = place.shown = null;
    shown.dispose();
    el.replaceChildren();
  }
}

// In no page and in no cell: cells out of sight are taken out of the page with all that is in them.
function thrownOut({ el }) {
  return !el.isConnected && !el.parentElement?.parentElement;
}

// A view of another widget within this one. There is one at a time; it is notified when it is removed.
class Below {
  constructor(model) {
    this.model = model;
    this.node = make("div");
    this.made = null;
    this.requested = false; // by the user, here, who may not see a view that opens far below
    this.onOpened = () => this.show();
    model.on("change:opened", this.onOpened);
  }
  async show() {
    const id = this.model.get("opened");
    if (!id) return;
    const child = await this.model.widget_manager.get_model(id);
    const made = await this.model.widget_manager.create_view(child, {});
    if (this.ended || this.model.get("opened") !== id) return made.remove();
    this.made?.remove();
    this.made = made;
    this.node.replaceChildren(made.el);
    if (this.requested) bringIntoSight(this.node);
    this.requested = false;
  }
  dispose() {
    this.ended = true;
    this.model.off("change:opened", this.onOpened);
    this.made?.remove();
    this.made = null;
  }
}

// Scroll to a view that was just opened. Its rows arrive later and push it out of sight again, as do cells above it that
// the notebook draws only now: so repeat it for three seconds, or until somebody scrolls, clicks or types.
function bringIntoSight(node) {
  const ends = performance.now() + 3000;
  const page = node.ownerDocument;
  const actions = ["wheel", "pointerdown", "keydown"];
  const stop = () => {
    clearInterval(timer);
    for (const action of actions) page.removeEventListener(action, stop, true);
  };
  const timer = setInterval(() => {
    node.scrollIntoView({ block: "nearest" });
    if (performance.now() > ends || !node.isConnected) stop();
  }, 150);
  for (const action of actions) page.addEventListener(action, stop, true);
}

function plural(count, noun, nouns = `${noun}s`) {
  return `${numbers.format(count)} ${count === 1 ? noun : nouns}`;
}

function typed(view, Type) {
  const aligned = view.byteOffset % Type.BYTES_PER_ELEMENT === 0;
  const buffer = aligned ? view.buffer : view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
  return new Type(buffer, aligned ? view.byteOffset : 0, view.byteLength / Type.BYTES_PER_ELEMENT);
}

function decode(column, buffers) {
  const nulls = column.n === undefined ? null : typed(buffers[column.n], Uint8Array);
  const narrow = () => typed(buffers[column.b], { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array }[column.w]);
  if (column.k === "text") return Array.from(narrow(), (c) => (c ? column.d[c - 1] : null));
  if (column.k === "int") return Array.from(narrow(), (n) => n + column.o);
  const values = Array.from(typed(buffers[column.b], column.k === "bool" ? Uint8Array : Float64Array));
  const made = column.k === "bool" ? values.map((v) => v === 1) : values;
  return nulls ? made.map((v, i) => (nulls[i] ? null : v)) : made;
}

function timeText(ms, withMillis) {
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  if (Math.abs(ms) >= 365 * 86400e3) {
    const date = new Date(ms);
    if (Number.isNaN(date.getTime())) return String(ms);
    const text = date.toISOString().replace("T", " ").replace("Z", "");
    return withMillis ? text : text.slice(0, -4);
  }
  const rest = Math.abs(ms);
  const clock = `${pad(Math.floor(rest / 3600e3) % 24)}:${pad(Math.floor(rest / 60e3) % 60)}:${pad(Math.floor(rest / 1e3) % 60)}`;
  const days = Math.floor(rest / 86400e3);
  return `${ms < 0 ? "-" : ""}${days ? `${days}d ` : ""}${clock}.${pad(rest % 1000, 3)}`;
}

// A column that knows how its values are written. Decimals and width only ever grow, so that nothing jumps. With one of
// its times to the millisecond all are.
class Column {
  constructor({ name, type, kind, title }) {
    Object.assign(this, { name, type, kind, title: title || undefined, decimals: 1, millis: false, chars: Math.min(30, name.length * 1.1) }); // headings are bold
    this.right = kind === "int" || kind === "float";
    this.needs = this.chars; // in a narrow page numbers are not given the room to grow
    if (this.right) this.chars = Math.max(this.chars, 7);
  }
  text(value) {
    if (value === null || value === undefined) return "null";
    if (this.kind === "time" && typeof value === "number") return timeText(value, this.millis || value % 1000 !== 0);
    if (typeof value === "number") return this.number(value);
    return String(value);
  }
  number(value) {
    if (this.kind !== "float" && Number.isInteger(value)) return String(value);
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "-∞";
    const size = Math.abs(value);
    if (value !== 0 && (size >= 1e15 || size < 1e-4)) return value.toExponential(4);
    return value.toFixed(this.decimals);
  }
  learn(values) {
    if (this.kind === "time") this.millis ||= values.some((value) => typeof value === "number" && value % 1000 !== 0);
    for (const value of values) {
      if (this.decimals < 4 && typeof value === "number" && !Number.isInteger(value) && Number.isFinite(value)) {
        this.decimals = Math.max(this.decimals, value.toFixed(4).replace(/0+$/, "").split(".")[1]?.length ?? 1);
      }
    }
    // A few hundred rows usually contain the longest values. A longer one that arrives later is cut, and its title shows it whole.
    for (const value of values.slice(-300)) this.needs = Math.max(this.needs, Math.min(36, this.text(value).length));
    this.chars = Math.max(this.chars, this.needs);
  }
}

const CLOSE = 1.5; // of a digit's width between columns in a narrow page

// ---- a table that draws only what is visible ----------------------------------------------------------------------

class VirtualTable {
  constructor(label, role = "table") {
    this.cell = role === "table" ? "cell" : "gridcell";
    this.head = make("div", { class: "cv-head", role: "row" });
    this.body = make("div", { class: "cv-body", role: "rowgroup" });
    this.empty = make("div", { class: "cv-empty" });
    this.node = make("div", { class: "cv-scroll", role, "aria-label": label, tabindex: "0" });
    this.node.append(make("div", { role: "rowgroup", class: "cv-headgroup" }, this.head), this.body, this.empty);
    this.pool = [];
    this.signature = this.headed = "";
    this.onSort = null; // called with the key of a column whose heading is clicked
    this.onMove = null; // called with the keys of a column that was dragged, and of the one it was dropped on
    this.columns = [];
  }
  // columns: [{name, right, chars}], with a `key` unless it is the name, a class `look`, with `sorted` ("", "ascending", "descending") those that can be sorted by;
  // row(i, node, cells) fills the row; `nothing` is shown when there are no rows
  draw(columns, count, fill, nothing, bottom = false) {
    this.layout(columns);
    setAttribute(this.node, "aria-rowcount", String(count + 1));
    const height = `${count * ROW}px`;
    if (this.body.style.height !== height) this.body.style.height = height;
    setText(this.empty, count ? "" : nothing);
    // Hidden for a moment, as when JupyterLab moves cells: the rows that were drawn are the right ones when it is back.
    if (!this.node.clientHeight && this.pool.length) return;
    if (bottom) this.node.scrollTop = this.node.scrollHeight;
    this.top = Math.round(this.node.scrollTop / ROW);
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW));
    const visible = Math.ceil(this.node.clientHeight / ROW) + 1;
    while (this.pool.length < visible) this.grow(columns.length);
    // In the page the rows stand in the order in which they are seen: that is how a screen reader reads them.
    this.pool.forEach((row, p) => {
      const index = first + p;
      const shown = index < count && p < visible;
      if (row.hidden === shown) row.hidden = !shown;
      if (!shown) return;
      if (row.index !== index) {
        row.index = index;
        row.style.transform = `translateY(${index * ROW}px)`;
        row.setAttribute("aria-rowindex", String(index + 2));
      }
      fill(index, row, row.cells);
    });
  }
  // Where the columns do not fit they move closer together; what does not fit even so is scrolled to.
  layout(columns) {
    this.columns = columns;
    const wide = columns.reduce((sum, c) => sum + c.chars + (c.extra ?? 0), 1);
    const tight = this.node.clientWidth > 0 && wide * this.digit() > this.node.clientWidth;
    const beside = (c) => (tight ? CLOSE + Math.max(0, Math.min(4, (c.extra ?? 0) - 4)) : (c.extra ?? 0));
    const room = (c) => (tight && c.right ? Math.min(c.chars, c.needs) : c.chars) + beside(c);
    const template = columns.map((c) => `${room(c)}ch`).join(" ") + " minmax(0, 1fr)";
    if (this.template !== template) {
      this.template = template;
      this.node.classList.toggle("cv-tight", tight);
      this.node.style.setProperty("--cv-columns", template);
      const width = columns.reduce((sum, c) => sum + room(c), tight ? 0 : 1);
      this.node.style.setProperty("--cv-width", `${width}ch`); // the rows are absolute and widen nothing by themselves
    }
    const headed = columns.map((c) => `${c.name}|${c.right}|${c.sorted}`).join("\u0001");
    if (headed !== this.headed) {
      this.headed = headed;
      const at = [...this.head.children].findIndex((node) => node.contains(document.activeElement));
      this.head.replaceChildren(...columns.map((c) => this.heading(c)));
      if (at >= 0) this.head.children[at]?.querySelector("button")?.focus();
    }
    const signature = columns.map((c) => `${c.name}|${c.right}|${c.look}`).join("\u0001");
    if (signature === this.signature) return;
    this.signature = signature;
    this.looks = columns.map((c) => `cv-cell${c.right ? " cv-right" : ""}${c.look ? ` ${c.look}` : ""}`);
    this.pool = [];
    this.body.replaceChildren();
  }
  // The width of a digit in pixels: one `ch`.
  digit() {
    if (!this.ch) {
      const rule = make("div", { style: "position:absolute;visibility:hidden;width:100ch" });
      this.node.append(rule);
      this.ch = rule.getBoundingClientRect().width / 100;
      rule.remove();
    }
    return this.ch;
  }
  heading(c) {
    const attributes = { role: "columnheader", class: c.right ? "cv-cell cv-right" : "cv-cell", title: c.title ?? plain(c.name) };
    const node = make("div", attributes);
    if (c.label !== undefined) node.setAttribute("aria-label", c.title ?? c.name);
    if (c.sorted === undefined) {
      node.append(c.label ?? plain(c.name));
      return node;
    }
    if (c.sorted) node.setAttribute("aria-sort", c.sorted);
    const sign = { ascending: " ▲", descending: " ▼" }[c.sorted] ?? "";
    const button = make("button", { type: "button", class: "cv-sort", title: `sort by ${plain(c.name)}` }, `${c.label ?? plain(c.name)}${sign}`);
    button.onclick = () => this.onSort?.(c.key ?? c.name);
    node.append(button);
    if (this.onMove) this.draggable(node, c.key ?? c.name);
    return node;
  }
  draggable(node, key) {
    node.draggable = true;
    node.ondragstart = (event) => {
      this.moving = key;
      event.dataTransfer.setData("text/plain", key);
      event.dataTransfer.effectAllowed = "move";
    };
    node.ondragover = (event) => this.moving !== undefined && event.preventDefault();
    node.ondrop = (event) => {
      event.preventDefault();
      event.stopPropagation(); // no cell of the notebook
      if (this.moving !== undefined) this.onMove(this.moving, key);
    };
    node.ondragend = () => delete this.moving;
  }
  grow(width) {
    const row = make("div", { class: "cv-row", role: "row" });
    row.cells = Array.from({ length: width }, (_, i) =>
      make("div", { class: this.looks[i], role: this.cell }),
    );
    row.append(...row.cells);
    row.hidden = true;
    this.pool.push(row);
    this.body.append(row);
  }
  get atBottom() {
    return this.node.scrollTop + this.node.clientHeight >= this.node.scrollHeight - ROW / 2;
  }
}

function fillCell(node, column, value) {
  const text = column.text(value);
  if (node.textContent === text) return;
  node.textContent = text;
  node.classList.toggle("cv-null", value === null);
  if (text.length > column.chars || typeof value === "number") node.title = value === null ? "null" : String(value);
  else node.removeAttribute("title");
}

// A bar behind the number of a cell: its share of the most.
function drawShare(cell, size, most) {
  const share = `${((100 * (size ?? 0)) / most).toFixed(1)}%`;
  if (cell.style.getPropertyValue("--cv-share") !== share) cell.style.setProperty("--cv-share", share);
  cell.classList.toggle("cv-size", size !== null);
}

function setClass(row, name) {
  if (row.className !== name) row.className = name;
}

// EPL as nodes, coloured as JupyterLab colours code. Text only ever becomes text nodes.
function highlighted(epl) {
  const token = /(\/\*[\s\S]*?\*\/|\/\/[^\n]*)|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(@\w+)|(#\w+)|(\b\d[\d.]*\w?\b)|([A-Za-z_]\w*)/g;
  const kinds = ["comment", "string", "meta", "view", "number"];
  const nodes = [];
  let end = 0;
  for (const match of epl.matchAll(token)) {
    let kind = kinds.find((_, i) => match[i + 1] !== undefined);
    if (!kind && KEYWORDS.has(match[0].toLowerCase())) kind = "keyword";
    if (!kind) continue;
    nodes.push(epl.slice(end, match.index), make("span", { class: `cv-${kind}` }, match[0]));
    end = match.index + match[0].length;
  }
  return [...nodes, epl.slice(end)];
}
