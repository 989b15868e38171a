// A live view whose kernel is gone: the picture that was saved beside it, and words that say so.
// JupyterLab prefers the live form of an output in a trusted notebook, and without its kernel that is an error or a
// picture of buttons that do nothing. Outputs that have a picture as HTML lose the live form when no kernel knows it.
import { NotebookActions } from '@jupyterlab/notebook';
import { JSONExt } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';

const VIEW = 'application/vnd.jupyter.widget-view+json';
const PICTURE = 'text/html';
export const SAVED = 'application/vnd.cepbook.saved+json';
const OUTPUTS = 'cepbook.outputs';
const WORDS = 'saved picture; run the cell for a live view';

/** The outputs of a notebook that are live views with a picture. */
function views(panel) {
  const found = [];
  for (const cell of panel.content.model?.cells ?? []) {
    if (cell.type !== 'code') continue;
    for (let at = 0; at < cell.outputs.length; at++) {
      const { data } = cell.outputs.get(at).toJSON();
      if (data && VIEW in data && PICTURE in data) found.push({ cell, at, id: data[VIEW].model_id });
    }
  }
  return found;
}

/** Turn the views into pictures that the kernel of `panel` does not know. */
async function settle(panel) {
  const before = views(panel); // those that come later are of this kernel
  if (!before.length) return;
  const kernel = panel.sessionContext.session?.kernel;
  let alive = {};
  if (kernel && kernel.status !== 'dead') {
    const reply = await kernel.requestCommInfo({ target_name: 'jupyter.widget' });
    alive = reply.content.comms ?? {};
  }
  if (panel.isDisposed) return;
  const { model } = panel.context;
  const dirty = model.dirty;
  for (const { cell, at, id } of before) {
    if (id in alive || at >= cell.outputs.length) continue;
    const output = cell.outputs.get(at).toJSON();
    if (output.data?.[VIEW]?.model_id !== id) continue;
    const { [VIEW]: gone, ...data } = output.data;
    cell.outputs.set(at, { ...output, data: { ...data, [SAVED]: { note: WORDS } } });
  }
  model.dirty = dirty;
}

/** The name that the kernel has given an output, in its metadata: a display id is not in a saved notebook. */
const nameOf = output => output.metadata?.cepbook?.output;

/** The names of the outputs that were there when the page was loaded, of which JupyterLab knows no display id. */
function loaded(panel) {
  const names = new Set();
  for (const cell of panel.content.model?.cells ?? []) {
    if (cell.type !== 'code') continue;
    for (let at = 0; at < cell.outputs.length; at++) names.add(nameOf(cell.outputs.get(at)));
  }
  names.delete(undefined);
  return names;
}

/** A function that returns whether this page is the one that saves updates of the outputs it was loaded with.
 *
 * Of several pages with a notebook one at most does, or one of them would ask which file shall be kept. The page that
 * ran cells goes first, and JupyterLab marks its document as changed anyway; if no page did, the one that was opened
 * first. Locks end with their page. Other browsers do not see them.
 */
function saver(panel) {
  const { locks } = navigator;
  if (!locks) return async () => false; // a page without encryption from another machine
  const notebook = `cepbook:${panel.sessionContext.sessionManager.serverSettings.baseUrl}${panel.context.path}`;
  const closed = new Promise(resolve => panel.disposed.connect(resolve));
  let first = false;
  let ran = false;
  locks.request(`${notebook}:first`, () => ((first = true), closed));
  const onScheduled = (_, { notebook: content }) => {
    if (content !== panel.content || ran) return;
    ran = true;
    locks.request(`${notebook}:ran`, { mode: 'shared' }, () => closed);
  };
  NotebookActions.executionScheduled.connect(onScheduled);
  closed.then(() => NotebookActions.executionScheduled.disconnect(onScheduled));
  return async () => {
    const { held } = await locks.query();
    const pages = held.filter(({ name }) => name === `${notebook}:ran`).length;
    return pages === Number(ran) && (ran || first);
  };
}

/** Update an output that was there when the page was loaded, as JupyterLab does with those that came later. */
function update(panel, names, saves, { content }) {
  const name = nameOf(content);
  if (panel.isDisposed || !names.has(name)) return;
  const { model } = panel.context;
  const dirty = model.dirty;
  let changed = false;
  for (const cell of panel.content.model?.cells ?? []) {
    if (cell.type !== 'code') continue;
    for (let at = 0; at < cell.outputs.length; at++) {
      const output = cell.outputs.get(at);
      if (nameOf(output) !== name || JSONExt.deepEqual(output.toJSON().data, content.data)) continue;
      cell.outputs.set(at, { output_type: 'display_data', data: content.data, metadata: content.metadata });
      changed = true;
    }
  }
  model.dirty = dirty;
  if (changed && !dirty) saves().then(yes => yes && !panel.isDisposed && (model.dirty = true));
}

/** Let the kernel update what it displays: the outputs in the notebook are as old as the file. */
async function refresh(panel) {
  const kernel = panel.sessionContext.session?.kernel;
  if (panel.isDisposed || !kernel || kernel.status === 'dead') return;
  const reply = await kernel.requestCommInfo({ target_name: 'jupyter.widget' });
  const alive = reply.content.comms ?? {};
  if (!panel.isDisposed && views(panel).some(({ id }) => id in alive)) kernel.createComm(OUTPUTS).open();
}

/** Look after the views of a notebook: when it is opened, and whenever its kernel is another one. */
export function follow(panel) {
  const { sessionContext } = panel;
  let stale = false;
  const look = () => {
    stale = false;
    settle(panel).catch(error => console.warn('cepbook: views were not looked after', error));
  };
  const onStatus = (_, status) => {
    if (['restarting', 'autorestarting', 'terminating'].includes(status)) stale = true;
    else if (status === 'dead' || (stale && status === 'idle')) look();
  };
  sessionContext.statusChanged.connect(onStatus);
  sessionContext.kernelChanged.connect((_, { newValue }) => (newValue ? (stale = true) : look()));
  let names = new Set();
  let saves = async () => false;
  sessionContext.iopubMessage.connect((_, message) => {
    if (message.header.msg_type === 'update_display_data') update(panel, names, saves, message);
  });
  panel.context.ready.then(() => {
    names = loaded(panel);
    saves = saver(panel);
  });
  Promise.all([panel.context.ready, sessionContext.ready]).then(look, look).then(() => {
    if (names.size) refresh(panel).catch(error => console.warn('cepbook: outputs were not refreshed', error));
  });
}

class Picture extends Widget {
  constructor({ sanitizer }) {
    super();
    this.sanitizer = sanitizer;
    this.addClass('jp-RenderedHTMLCommon');
  }
  renderModel(model) {
    const html = String(model.data[PICTURE] ?? '');
    const words = document.createElement('div');
    words.className = 'cepbook-saved';
    words.style.cssText = 'color: var(--jp-ui-font-color2); font-style: italic';
    words.textContent = model.data[SAVED].note;
    const picture = document.createElement('div');
    picture.innerHTML = model.trusted ? html : this.sanitizer.sanitize(html);
    this.node.replaceChildren(words, picture);
    return Promise.resolve();
  }
}

export const renderer = {
  safe: true,
  mimeTypes: [SAVED],
  createRenderer: options => new Picture(options)
};
