// The browser half of cepbook.widgets.map.flow_map: the picture is Python's, escaped there; frames change its figures.
// Uses table.js, which Python puts before this text.

function showFlow(model, el) {
  const client = Math.random().toString(36).slice(2);
  const root = make("section", { class: "cepbook-flow", "aria-label": "map of the data flow" });
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const picture = make("div", { class: "cf-picture" });
  const below = new Below(model);
  below.node.className = "cf-below";
  const past = make("div", { class: "cf-past", role: "status" });
  root.append(past, picture, below.node);
  el.append(root);
  const before = new Map(); // by node: count and time of the last frame, the rate
  const tell = (message) => {
    try {
      model.send(message);
    } catch (error) {
      console.debug("cepbook: no kernel to talk to", error);
    }
  };
  const open = (node) => {
    if (!node) return;
    below.requested = true;
    tell({ kind: "open", name: node.dataset.opens });
  };
  picture.onclick = (event) => open(event.target.closest("[data-opens]"));
  picture.onkeydown = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(event.target.closest("[data-opens]"));
    }
  };
  const onMessage = (frame) => {
    if (frame?.kind !== "frame") return;
    setText(past, frame.past);
    past.hidden = !frame.past;
    if (frame.svg) {
      picture.innerHTML = frame.svg;
      for (const node of picture.querySelectorAll("[data-opens]")) {
        node.setAttribute("tabindex", "0");
        node.setAttribute("role", "button");
      }
    }
    const now = performance.now();
    for (const node of picture.querySelectorAll("[data-node]")) {
      const figures = frame.figures[node.dataset.node];
      if (!figures) continue;
      const last = before.get(node.dataset.node);
      const rate = last && now > last.at ? (1000 * (figures.count - last.count)) / (now - last.at) : 0;
      before.set(node.dataset.node, { count: figures.count, at: now });
      const wide = node.querySelector("rect").getAttribute("width") >= 160; // else there is no room for more
      const more = !wide || frame.past ? [] : [rate >= 0.5 ? `${compact.format(rate)}/s` : "", figures.latency ? `${compact.format(figures.latency)} µs/event` : ""];
      node.querySelectorAll("[data-figures]").forEach((line, i) => setText(line, [figures.words[i], more[i]].filter(Boolean).join(", ")));
      const title = node.querySelector("title");
      title.dataset.head ??= title.textContent;
      setText(title, figures.cpu ? `${title.dataset.head}\n${compact.format(figures.cpu)} s of processor time` : title.dataset.head);
      node.classList.toggle("cf-failed", figures.failed);
      node.classList.toggle("cf-busy", rate >= 0.5);
    }
    tell({ kind: "ack", n: frame.n });
  };
  model.on("msg:custom", onMessage);
  // The picture is made as wide as there is room for it.
  let width = 0;
  const measure = () => {
    const now = Math.floor(root.clientWidth);
    if (!now || Math.abs(now - width) < 4) return;
    width = now;
    tell({ kind: "size", width });
  };
  const observer = new ResizeObserver(measure);
  observer.observe(root);
  const hello = () => tell({ kind: "hello", client });
  hello();
  hearing(model, hello);
  const dispose = () => {
    model.off("msg:custom", onMessage);
    observer.disconnect();
    below.dispose();
    tell({ kind: "bye", client });
  };
  return { dispose };
}

export default () => {
  const places = new Places();
  return { render: ({ model, el }) => places.add(el, showFlow(model, el)) };
};
