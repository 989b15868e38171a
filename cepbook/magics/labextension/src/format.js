// "Format EPL": the cell or the .epl file in front, laid out anew; a button in their toolbars, and Alt Shift F.
import { Notification } from '@jupyterlab/apputils';
import { CommandToolbarButton, LabIcon } from '@jupyterlab/ui-components';
import { ask, isEpl } from './ask.js';

const COMMAND = 'cepbook:format';
const icon = new LabIcon({
  name: 'cepbook:format',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">' +
    '<path d="M3 4h13v2H3zM7 9h14v2H7zM7 14h10v2H7zM3 19h11v2H3z"/></g></svg>'
});

/** The editor of what is in front: the active cell's, or a file's. */
function editorOf(app, notebooks) {
  const widget = app.shell.currentWidget;
  if (!widget) return null;
  const editor = notebooks.has(widget) ? widget.content.activeCell?.editor : widget.content?.editor;
  return editor?.editor ?? null;
}

/** Why nothing can be formatted; empty when it can. */
async function format(app, notebooks) {
  const view = editorOf(app, notebooks);
  if (!view || !isEpl(view.state)) return 'only EPL is formatted: a cell that begins with %%epl, or an .epl file';
  const { doc } = view.state;
  const found = await ask(notebooks, view, { kind: 'format' });
  if (!found) return 'formatting needs a notebook whose kernel is idle and has cepbook: %load_ext cepbook';
  if (found.problem) return found.problem;
  if (view.state.doc === doc && found.text !== doc.toString()) {
    view.dispatch({ changes: { from: 0, to: doc.length, insert: found.text }, userEvent: 'input.format' });
  }
  return '';
}

export function addFormat(app, notebooks, palette) {
  app.commands.addCommand(COMMAND, {
    label: 'Format EPL',
    caption: 'Lay the EPL of this cell or file out anew (Alt Shift F)',
    icon,
    execute: async () => {
      const problem = await format(app, notebooks);
      if (problem) Notification.warning(problem, { autoClose: 8000 });
    }
  });
  palette?.addItem({ command: COMMAND, category: 'cepbook' });
  for (const selector of ['.jp-Notebook.jp-mod-editMode', '.jp-FileEditor']) {
    app.commands.addKeyBinding({ command: COMMAND, keys: ['Alt Shift F'], selector });
  }
  const button = () => new CommandToolbarButton({ commands: app.commands, id: COMMAND, label: '' });
  app.docRegistry.addWidgetExtension('Notebook', {
    createNew: panel => void panel.toolbar.insertAfter('cellType', 'cepbook-format', button())
  });
  app.docRegistry.addWidgetExtension('Editor', {
    createNew: (file, context) => void (context.path.endsWith('.epl') && file.toolbar.addItem('cepbook-format', button()))
  });
}
