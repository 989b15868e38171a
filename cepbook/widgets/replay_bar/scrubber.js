// The bar under a replay: drag to a past instant, hop from delivery to delivery, run until something fires.
// Python puts this text between table.js and replay_control.js.

const SPEEDS = [1, 10, 60, 600, 3600, 86400, null]; // times real time; null: as fast as it goes
const speedText = (factor) => (factor === null ? "full speed" : `${numbers.format(factor)} × real time`);

// A choice of the user is the kernel's, so that another page, or this one after a reload, has it: what the kernel says is
// set where it is news, and nobody is typing.
function keep(input, value) {
  if (value === undefined || value === null || input.told === String(value)) return;
  input.told = String(value);
  if (document.activeElement !== input) input.value = input.told;
}

class Scrub {
  constructor(control, button) {
    this.control = control;
    this.busy = false; // the kernel is showing an instant; the latest one requested meanwhile follows
    this.wanted = undefined;
    this.back = button("‹", "previous delivery", () => this.hop(true));
    this.next = button("›", "next delivery", () => this.hop(false));
    for (const node of [this.back, this.next]) node.classList.add("cp-hop");
    this.statement = make("select", { "aria-label": "statement for the previous and next buttons" });
    this.statement.onchange = () => control.order("choose", { statement: this.statement.value });
    this.range = make("input", { type: "range", class: "cp-range", min: "0", max: "0", step: "1", "aria-label": "instant to show" });
    this.range.oninput = () => this.drag(Number(this.range.value));
    this.range.onkeydown = (event) => this.key(event);
    this.marks = make("div", { class: "cp-marks" });
    this.fill = make("div", { class: "cp-fill" });
    this.progress = make("div", { class: "cp-bar", role: "progressbar", "aria-label": "replay", "aria-valuemin": "0" }, this.fill);
    [this.from, this.to] = [make("span", { title: "the first event" }), make("span", { title: "the last event" })];
    this.now = button("Now", "return to the present", () => this.seek(null));
    this.mark = button("☆", "bookmark this instant", () => control.order("mark"));
    this.mark.classList.add("cp-hop");
    this.at = make("span", { class: "cp-at", role: "status" });
    this.speed = make("input", { type: "range", class: "cp-speed", min: "0", max: String(SPEEDS.length - 1), step: "1", "aria-label": "speed" });
    this.speed.oninput = () => control.order("speed", { factor: SPEEDS[Number(this.speed.value)] });
    this.speedText = make("span", { class: "cp-rate" });
    this.second = button("+1 s", "go on by a second: of the past that is shown, or of engine time, then pause", () => control.order("clock", { by: 1000 }));
    this.due = button("Next due", "go on to the next due time: of the past that is shown, or of the engine, then pause", () => control.order("clock", { due: true }));
    this.until = make("input", { type: "text", class: "cp-until", placeholder: "statement, or Tick(price > 100)", "aria-label": "run until this fires" });
    this.go = button("Run until", "run until this fires, then pause", () => control.order("until", { text: this.until.value }));
    this.until.onkeydown = (event) => {
      if (event.key === "Enter") this.go.click();
    };
    this.until.onchange = () => control.order("choose", { text: this.until.value });
    this.note = make("div", { class: "cp-note", role: "status" });
    this.waits = make("span", { class: "cp-waits", role: "status" });
    const track = make("div", { class: "cp-track" }, this.progress, this.range, this.marks, make("div", { class: "cp-ends" }, this.from, this.to));
    this.bar = make("div", { class: "cp-line cp-scrub" }, this.back, track, this.next, this.statement, this.now, this.mark);
    this.more = make("div", { class: "cp-line" }, this.at, make("span", { class: "cp-space" }), make("div", { class: "cp-line" }, this.until, this.go));
    this.clock = [this.second, this.due];
    this.pace = [this.speed, this.speedText];
    this.nodes = [this.back, this.range, this.marks, this.next, this.statement, this.now, this.mark, this.more, this.note, ...this.clock, ...this.pace];
  }
  // Arrows go a hundredth of the way, with Shift a thousandth: a step of the slider is a millisecond.
  key(event) {
    const to = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!to) return;
    event.preventDefault();
    const from = Number(this.range.value);
    this.drag(from + to * Math.max(1, Math.round((this.reached - this.range.min) / (event.shiftKey ? 1000 : 100))));
  }
  // Behind what was replayed there is nothing to show.
  drag(time) {
    this.range.value = String(Math.min(time, this.reached));
    this.seek(Number(this.range.value));
  }
  hop(back) {
    this.control.order("hop", { statement: this.statement.value, back });
  }
  seek(time) {
    this.wanted = time;
    if (this.busy) return;
    this.busy = true;
    this.wanted = undefined;
    this.control.order("seek", { time });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.answered(), 3000); // the answer was lost
  }
  answered() {
    clearTimeout(this.timer);
    this.busy = false;
    if (this.wanted !== undefined) this.seek(this.wanted);
  }
  // The bar spans the time of all events where it is known, or as many as there are: the filled part was replayed.
  drawProgress({ events, state, scrub }, ended, all) {
    const [from, reached] = scrub?.span ?? [0, 0];
    let share = all ? Math.min(1, events / all) : ended ? 1 : 0;
    let end = scrub?.end ?? null;
    if (end !== null && end > from && reached <= end) share = (reached - from) / (end - from);
    else end = ended ? reached : null;
    this.fill.style.width = `${100 * share}%`;
    this.progress.classList.toggle("cp-unknown", !all && state === "running");
    if (all) {
      setAttribute(this.progress, "aria-valuemax", String(all));
      setAttribute(this.progress, "aria-valuenow", String(events));
    }
    const millis = reached - from < 10_000;
    const dated = Boolean(scrub?.span) && reached > from;
    setText(this.from, dated ? timeText(from, millis) : "");
    setText(this.to, dated && end !== null ? timeText(end, millis) : "");
    return end ?? (share > 0 ? Math.round(from + (reached - from) / share) : reached);
  }
  draw(frame, ended, all) {
    const { scrub } = frame;
    const end = this.drawProgress(frame, ended, all);
    for (const node of this.nodes) node.hidden = !scrub;
    setText(this.waits, scrub?.awaited ? `until ${scrub.awaited}` : "");
    setAttribute(this.waits, "title", scrub?.awaited ? "the replay pauses when this fires" : "");
    if (!scrub) return;
    if (this.busy) this.answered();
    const kept = scrub.span !== null && scrub.span[1] > scrub.span[0];
    for (const node of [this.range, this.back, this.next, this.now, this.mark]) node.disabled = !kept;
    const names = scrub.statements.join("\u0001");
    if (this.names !== names) {
      this.names = names;
      this.statement.replaceChildren(...scrub.statements.map((name) => make("option", { value: name }, name)));
      this.statement.told = undefined;
    }
    keep(this.statement, scrub.statement);
    keep(this.until, scrub.text);
    if (kept) {
      const [from, to] = scrub.span;
      this.reached = to;
      setAttribute(this.range, "min", String(from));
      setAttribute(this.range, "max", String(end));
      if (document.activeElement !== this.range || !this.range.matches(":active")) this.range.value = String(scrub.past ?? to);
      setAttribute(this.range, "aria-valuetext", timeText(scrub.past ?? to, true));
      this.drawMarks(scrub.marks, from, end);
    }
    this.drawZoom(kept ? scrub.zoom : null);
    this.now.disabled = scrub.past === null;
    setText(this.at, !kept ? scrub.lacks : scrub.past === null ? "showing the present" : `showing ${timeText(scrub.past, scrub.past % 1000 !== 0)}`);
    this.at.classList.toggle("cp-past", scrub.past !== null);
    const last = SPEEDS.length - 1; // a speed between two steps of the slider is shown at the nearest
    const far = (at) => Math.abs(Math.log(SPEEDS[at] / scrub.speed));
    const at = scrub.speed === null ? last : [...SPEEDS.keys()].slice(0, last).reduce((best, each) => (far(each) < far(best) ? each : best));
    if (document.activeElement !== this.speed) this.speed.value = String(at);
    setText(this.speedText, speedText(scrub.speed));
    setAttribute(this.speed, "aria-valuetext", speedText(scrub.speed));
    for (const node of [this.speed, this.until, this.go]) node.disabled = ended;
    this.due.disabled = !scrub.due;
    setText(this.note, scrub.note);
    this.note.hidden = !scrub.note;
  }
  // The range of times that the charts show.
  drawZoom(zoom) {
    this.band ??= make("div", { class: "cp-zoom", title: "the charts show these times" });
    this.band.hidden = !zoom;
    if (!zoom) return;
    if (!this.band.isConnected) this.marks.after(this.band);
    const [from, to] = [Number(this.range.min), Number(this.range.max)];
    const [left, right] = zoom.map((time) => Math.min(1, Math.max(0, (time - from) / Math.max(1, to - from))));
    this.band.style.left = `calc(8px + ${left} * (100% - 16px))`;
    this.band.style.width = `max(2px, ${right - left} * (100% - 16px))`;
  }
  drawMarks(marks, from, to) {
    const key = [marks, from, to].join();
    if (this.marked === key) return;
    this.marked = key;
    this.marks.replaceChildren(
      ...marks.map((time) => {
        const text = timeText(time, time % 1000 !== 0);
        const node = make("button", { type: "button", class: "cp-mark", title: `bookmark ${text}; Shift-click removes it`, "aria-label": `bookmark ${text}` });
        node.style.left = `${(100 * (time - from)) / Math.max(1, to - from)}%`;
        node.onclick = (event) => (event.shiftKey ? this.control.order("unmark", { time }) : this.seek(time));
        return node;
      }),
    );
  }
}
