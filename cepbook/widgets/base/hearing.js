// A page that was busy for two seconds while a widget was made: anywidget then gives the model up, which stays deaf
// although its module is there and is displayed. It listens by itself then. Python puts this text before the others.

const PATIENCE = 3000; // ms until a widget says that it has heard nothing
const UNHEARD = "no answer from the kernel";
const SILENT = "The kernel is busy, or this page missed its first messages. If this message stays, reload the page.";
const DEAF = 1200; // ms without an answer after which this is tried; a kernel that is busy is none the worse for it

// Called after the first request for frames. If no message arrives, `again` requests once more, now that listeners are set.
function hearing(model, again) {
  let heard = false;
  const onMessage = () => (heard = true);
  model.on("msg:custom", onMessage);
  setTimeout(async () => {
    model.off("msg:custom", onMessage);
    if (!heard && (await openEars(model))) again();
  }, DEAF);
}

// Messages go to the handler of all widgets, past the one of anywidget, which waits for what has failed.
async function openEars(model) {
  try {
    const own = await model.widget_manager.get_model(model.get("own"));
    const handlers = [];
    for (let at = own; at; at = Object.getPrototypeOf(at)) {
      if (Object.hasOwn(at, "_handle_comm_msg")) handlers.push(at._handle_comm_msg);
    }
    if (!own.comm || handlers.length < 2) return false;
    own.comm.on_msg(handlers.at(-1).bind(own));
    return true;
  } catch (error) {
    console.debug("cepbook: no kernel to listen to", error);
    return false;
  }
}
