// The page's side of the worker: requests with answers, and an end for those that take too long.

export class Stopped extends Error {}

export class Engine {
  /** `onProgress(part, words)` is called while the engine loads, `onReady()` when it has loaded. */
  constructor(onProgress, onReady, onBroken) {
    Object.assign(this, { onProgress, onReady, onBroken });
    this.waiting = new Map();
    this.number = 0;
    this.start();
  }

  start() {
    this.isReady = false;
    this.worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
    this.worker.onmessage = ({ data }) => this.take(data);
    this.worker.onerror = event => this.onBroken(event.message || 'the engine did not load');
  }

  take(message) {
    if ('progress' in message) return this.onProgress(message.progress, message.words);
    if (message.ready) {
      this.isReady = true;
      return this.onReady();
    }
    if (message.broken) return this.onBroken(message.broken);
    const { answered, failed } = this.waiting.get(message.id) ?? {};
    this.waiting.delete(message.id);
    if (!message.failed) return answered?.(JSON.parse(message.answer));
    failed?.(new Error(message.failed));
    if (message.isFatal) this.stop(); // Pyodide answers nothing any more
  }

  /** Ask the engine; the promise fails with `Stopped` if the engine is stopped meanwhile. */
  ask(kind, request = {}) {
    const id = ++this.number;
    return new Promise((answered, failed) => {
      this.waiting.set(id, { answered, failed });
      this.worker.postMessage({ id, request: JSON.stringify({ kind, ...request }) });
    });
  }

  get isBusy() {
    return this.waiting.size > 0;
  }

  /** End whatever runs, and start a new engine. */
  stop() {
    this.worker.terminate();
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const { failed } of waiting) failed(new Stopped());
    this.start();
  }
}
