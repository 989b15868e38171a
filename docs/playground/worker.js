// The engine: Pyodide and cepbook in a worker, so that the page never stands still. It starts from a picture of the
// memory behind all imports (tools/playground.py takes it), which is much faster than importing.
import { creator, limitFrames } from './memory.js';
import { loadPyodide } from './pyodide/pyodide.mjs';

const progress = (part, words) => postMessage({ progress: part, words });

/** The bytes of a file that is stored compressed. */
async function inflated(url, report) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  const size = Number(response.headers.get('content-length'));
  let received = 0;
  const counted = new TransformStream({
    transform(chunk, controller) {
      received += chunk.length;
      if (size) report(Math.min(1, received / size));
      controller.enqueue(chunk);
    }
  });
  const stream = response.body.pipeThrough(counted).pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function start() {
  progress(0.02, 'Loading the engine');
  const indexURL = new URL('./pyodide/', import.meta.url).href;
  const snapshot = inflated('./memory.bin.gz', part => progress(0.05 + part * 0.75, 'Loading the engine'));
  const python = await loadPyodide({
    indexURL,
    packageBaseUrl: indexURL,
    _loadSnapshot: snapshot,
    createPyodideModule: creator(snapshot)
  });
  limitFrames(python);
  progress(1, '');
  return { python, answer: python.globals.get('answer') };
}

const engine = start();
engine.then(
  () => postMessage({ ready: true }),
  error => postMessage({ broken: String(error?.message ?? error) })
);

/** The files of the packages: what was imported needs none of them, what is imported later does. */
let files;
const unpacked = python => {
  files ??= fetch('./packages.zip')
    .then(response => response.arrayBuffer())
    .then(bytes => python.unpackArchive(bytes, 'zip', { extractDir: python.runPython('import site; site.getsitepackages()[0]') }));
  return files;
};
const MISSING = /ModuleNotFoundError|FileNotFoundError/;

let turn = Promise.resolve();
onmessage = ({ data: { id, request } }) => {
  turn = turn.then(async () => {
    const { python, answer } = await engine;
    try {
      try {
        postMessage({ id, answer: answer(request) });
      } catch (error) {
        if (!MISSING.test(error.message)) throw error;
        await unpacked(python);
        postMessage({ id, answer: answer(request) });
      }
    } catch (error) {
      postMessage({ id, failed: String(error?.message ?? error), isFatal: Boolean(error?.pyodide_fatal_error) });
    }
  });
};
