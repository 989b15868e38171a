// Takes a picture of Pyodide's memory behind the requests of warm_up.json, which import everything that the page needs:
// `node take_memory.mjs PYODIDE PACKAGES OUT`.
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [pyodide, packages, output] = process.argv.slice(2).map(each => path.resolve(each));
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, 'pyodide.mjs')).href);
const python = await loadPyodide({ indexURL: `${pyodide}/`, packageBaseUrl: `${pyodide}/`, _makeSnapshot: true });
const extractDir = python.runPython('import site; site.getsitepackages()[0]');
python.unpackArchive(new Uint8Array(fs.readFileSync(packages)), 'zip', { extractDir });
python.runPython(`
from cepbook.playground.requests import Playground
answer = Playground().answer
`);
const answer = python.globals.get('answer');
for (const request of JSON.parse(fs.readFileSync(new URL('./warm_up.json', import.meta.url), 'utf8'))) {
  const { error } = JSON.parse(answer(JSON.stringify(request)));
  if (error) throw new Error(`${request.kind}: ${error}`);
}
answer.destroy();
python.runPython('import gc; gc.collect()');
fs.writeFileSync(output, python.makeMemorySnapshot());
