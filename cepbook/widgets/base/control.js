// What the bars of replays and of live sources share: frames in, orders out. Python puts this text before theirs.

const ENDED = ["finished", "stopped", "failed"];

class Control {
  // frame: the state before the first message of the kernel
  constructor(model, frame) {
    this.model = model;
    this.draws = new Set();
    this.places = new Places();
    this.frame = frame;
    Object.assign(this, { rate: 0, at: 0, silent: false });
    this.onMessage = (message) => message?.kind === "frame" && this.receive(message);
    model.on("msg:custom", this.onMessage);
    this.client = Math.random().toString(36).slice(2);
  }
  attach(draw) {
    this.draws.add(draw);
    if (this.draws.size > 1) return;
    const hello = () => this.model.send({ kind: "hello", client: this.client });
    hello();
    if (!this.at) hearing(this.model, hello);
    if (!this.at) this.waiting = setTimeout(() => this.unheard(), PATIENCE);
  }
  unheard() {
    this.silent = true;
    for (const draw of this.draws) draw();
  }
  detach(draw) {
    this.draws.delete(draw);
    if (this.draws.size === 0) this.model.send({ kind: "bye", client: this.client });
  }
  receive(frame) {
    clearTimeout(this.waiting);
    this.silent = false;
    const now = performance.now();
    const news = frame.events - this.frame.events;
    if (this.at && news > 0) {
      const elapsed = Math.max(20, now - this.at) / 1000;
      this.rate += (1 - Math.exp(-elapsed / 0.8)) * (news / elapsed - this.rate);
    }
    if (frame.state !== "running") this.rate = 0;
    this.at = now;
    this.frame = frame;
    for (const draw of this.draws) draw();
    if (!frame.quiet) this.model.send({ kind: "ack", n: frame.n });
  }
  order(order, more = {}) {
    this.model.send({ kind: "order", order, ...more });
  }
  dispose() {
    clearTimeout(this.waiting);
    this.model.off("msg:custom", this.onMessage);
  }
}

function orderButton(label, title, onclick) {
  const sign = /[a-z]/i.test(label) ? {} : { "aria-label": title }; // of a sign alone nobody could say what it does
  const node = make("button", { type: "button", title, ...sign }, label);
  node.onclick = onclick;
  return node;
}

// The module of a bar: `show(control, el)` draws it and gives its end.
function barModule(frame, show) {
  let control = null;
  return {
    initialize({ model }) {
      control = new Control(model, frame);
      return () => control.dispose();
    },
    render({ model, el }) {
      control ??= new Control(model, frame);
      return control.places.add(el, show(control, el));
    },
  };
}
