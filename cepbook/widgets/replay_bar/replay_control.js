// The browser half of cepbook.widgets.replay_bar.replay_control. Buttons send orders; the replay obeys between its slices.
// Uses hearing.js, table.js, control.js and scrubber.js, which Python puts before this text.

function show(control, el) {
  const state = make("span", { class: "cp-state", role: "status" });
  const count = make("span", { class: "cp-count" });
  const rate = make("span", { class: "cp-rate", title: "events per second" });
  const troubles = make("span", { class: "cp-troubles", title: "late events and statement errors" });
  const clock = make("span", { class: "cp-clock", title: "engine time (UTC)" });
  const pause = orderButton("Pause", "pause or resume the replay", () =>
    control.order(control.frame.state === "paused" ? "resume" : "pause"),
  );
  const size = make("input", { type: "number", min: "1", value: "1", "aria-label": "events per step" });
  size.onchange = () => control.order("choose", { step: Math.max(1, Math.floor(Number(size.value)) || 1) });
  const step = orderButton("Step", "run this many events, then pause", () =>
    control.order("step", { n: Math.max(1, Math.floor(Number(size.value)) || 1) }),
  );
  const stop = orderButton("Stop", "stop the replay", () => control.order("stop"));
  const root = make("section", { class: "cepbook-progress", "aria-label": "replay" });
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const scrub = new Scrub(control, orderButton);
  root.append(
    make("div", { class: "cp-line" }, state, count, troubles, rate, scrub.waits, make("span", { class: "cp-space" }), clock),
    scrub.bar,
    make("div", { class: "cp-line" }, pause, step, size, stop, ...scrub.clock, make("span", { class: "cp-space" }), ...scrub.pace),
    scrub.more,
    scrub.note,
  );
  el.append(root);
  const draw = () => {
    const { events, total, estimate, clock: time, state: now } = control.frame;
    const all = total ?? estimate ?? null;
    const ended = ENDED.includes(now);
    setText(state, control.silent ? UNHEARD : now);
    setAttribute(state, "title", control.silent ? SILENT : "");
    setAttribute(root, "data-state", control.silent ? "silent" : ended && control.frame.failed ? "failed" : now);
    setText(troubles, control.frame.troubles ?? "");
    const about = total === null ? "about " : "";
    setText(count, all === null ? plural(events, "event") : `${numbers.format(events)} of ${about}${plural(all, "event")}`);
    const lag = control.frame.behind ? `${compact.format(control.frame.behind)} s behind the wall clock` : "";
    setText(rate, [control.rate >= 0.5 ? `${compact.format(control.rate)} ev/s` : "", lag].filter(Boolean).join(", "));
    setClock(clock, time);
    setText(pause, now === "paused" ? "Resume" : "Pause");
    for (const node of [pause, step, size, stop]) node.disabled = ended;
    keep(size, control.frame.scrub?.step);
    scrub.draw(control.frame, ended, all);
  };
  control.attach(draw);
  draw();
  return { dispose: () => control.detach(draw) };
}

export default () => barModule({ events: 0, total: null, estimate: null, clock: "", state: "ready" }, show);
