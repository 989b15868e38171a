// The panel of the kernel behind the notebook in front, in the left sidebar. The widget is the one that `%cep` shows in a
// cell: the kernel is asked for it over a comm, and the notebook's own renderer of widgets draws it. While the sidebar is
// hidden, or another notebook is in front, nothing is drawn and the kernel reads nothing.
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import { MimeModel } from '@jupyterlab/rendermime';
import { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

const TARGET = 'cepbook.panel';
const VIEW = 'application/vnd.jupyter.widget-view+json';
const COMMAND = 'cepbook:show-panel';
const ASK = 'This notebook’s kernel has no cepbook. Run %load_ext cepbook in it.';
const NONE = 'Open a notebook that uses cepbook.';

const icon = new LabIcon({
  name: 'cepbook:panel',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161">' +
    '<circle cx="4" cy="6" r="2"/><circle cx="11" cy="6" r="2"/><circle cx="18" cy="6" r="2"/>' +
    '<path d="M2 11h20v2H2z"/><path d="M9 15h6v6H9z"/></g></svg>'
});

class Sidebar extends Widget {
  constructor(notebooks) {
    super();
    this.id = 'cepbook-panel';
    this.title.icon = icon;
    this.title.caption = 'cepbook: statements, types, variables, clock, errors';
    this.addClass('cepbook-sidebar');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'cepbook panel');
    this.words = document.createElement('div');
    this.words.style.cssText = 'padding: 8px 12px; color: var(--jp-ui-font-color2)';
    this.words.setAttribute('role', 'status');
    this.node.style.overflowY = 'auto';
    this.node.append(this.words);
    this.notebooks = notebooks;
    this.kernel = this.comm = this.shown = null;
    notebooks.currentChanged.connect(() => this.look());
    this.onStatus = (_, status) => this.status(status);
    this.onKernel = () => this.look();
    NotebookActions.executed.connect((_, { notebook }) => {
      if (notebook === this.panel?.content && !this.comm) this.look(); // it may have loaded cepbook
    });
    this.node.addEventListener('cepbook-run', event => this.run(event));
  }
  onAfterShow() {
    this.look();
  }
  onAfterHide() {
    this.leave();
  }
  onActivateRequest() {
    (this.node.querySelector('input') ?? this.node).focus();
  }
  say(words) {
    this.words.textContent = words;
    this.words.hidden = !words;
  }
  /** Show the panel of the notebook in front, or what is in the way. */
  look() {
    const panel = this.notebooks.currentWidget;
    if (panel !== this.panel) {
      this.panel?.sessionContext?.kernelChanged.disconnect(this.onKernel);
      this.panel?.sessionContext?.statusChanged.disconnect(this.onStatus);
      this.panel = panel;
      panel?.sessionContext.kernelChanged.connect(this.onKernel);
      panel?.sessionContext.statusChanged.connect(this.onStatus);
    }
    if (!this.isVisible) return;
    const kernel = panel?.sessionContext.session?.kernel ?? null;
    if (kernel && kernel === this.kernel && this.comm) return;
    this.leave();
    this.kernel = kernel;
    if (!panel) this.say(NONE);
    else if (!kernel || kernel.isDisposed || kernel.status === 'dead') this.say('This notebook has no kernel.');
    else this.ask();
  }
  /** A kernel is asked when it is idle; answering makes it busy, and that is no reason to ask again. */
  status(status) {
    if (['restarting', 'autorestarting', 'terminating', 'dead'].includes(status)) {
      this.leave();
      this.waiting = true;
      this.say(status === 'dead' ? 'The kernel of this notebook is dead.' : 'The kernel is restarting.');
    } else if (status === 'idle' && this.waiting) this.look();
  }
  ask() {
    const { kernel } = this;
    this.waiting = kernel.status !== 'idle';
    if (this.waiting) {
      this.say('Waiting for the kernel …');
      return;
    }
    const comm = kernel.createComm(TARGET);
    this.comm = comm;
    comm.onMsg = message => {
      if (this.comm === comm) this.draw(message.content.data.model);
    };
    comm.onClose = () => {
      if (this.comm !== comm) return;
      this.leave();
      this.say(ASK);
    };
    comm.open();
    comm.send({ kind: 'panel' });
  }
  async draw(id) {
    if (!this.isVisible || this.shown) return;
    const model = new MimeModel({ data: { [VIEW]: { version_major: 2, version_minor: 0, model_id: id } }, trusted: true });
    const shown = this.panel.content.rendermime.createRenderer(VIEW);
    this.shown = shown;
    this.say('');
    Widget.attach(shown, this.node);
    await shown.renderModel(model);
  }
  /** Take the panel away: its view says goodbye, and the kernel reads nothing for it any more. */
  leave() {
    const { shown, comm } = this;
    this.shown = this.comm = this.kernel = null;
    shown?.dispose();
    if (comm && !comm.isDisposed) {
      try {
        comm.close();
      } catch {
        // its kernel is gone
      }
    }
  }
  /** A line that the panel wants to show: in a cell of its own behind the active one. */
  run(event) {
    if (!this.panel) return;
    event.preventDefault();
    const { content, sessionContext } = this.panel;
    NotebookActions.insertBelow(content);
    content.activeCell.model.sharedModel.setSource(event.detail);
    void NotebookActions.run(content, sessionContext);
  }
}

export const sidebar = {
  id: 'cepbook-epl:panel',
  description: 'The panel in the left sidebar: what the workbench of the notebook in front holds.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette],
  activate: (app, notebooks, palette) => {
    const widget = new Sidebar(notebooks);
    app.shell.add(widget, 'left', { rank: 650, type: 'cepbook' });
    app.commands.addCommand(COMMAND, {
      label: 'Show the cepbook Panel',
      caption: 'Statements, types, contexts, stores, variables, clock and errors of the notebook in front',
      icon,
      execute: () => app.shell.activateById(widget.id)
    });
    palette?.addItem({ command: COMMAND, category: 'cepbook' });
  }
};
