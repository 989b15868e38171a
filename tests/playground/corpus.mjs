// Runs cases of the corpus under Pyodide: `node corpus.mjs PAGE CORPUS.zip COUNT` prints what came of them as JSON.
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { pathToFileURL } from 'node:url';

const [page, corpus, count] = process.argv.slice(2);
const pyodide = path.resolve(page, 'pyodide');
const load = name => import(pathToFileURL(path.join(pyodide, name)).href);
const { loadPyodide } = await load('pyodide.mjs');
const { creator, limitFrames } = await import(pathToFileURL(path.resolve(page, 'memory.js')).href);
const snapshot = new Uint8Array(zlib.gunzipSync(fs.readFileSync(path.resolve(page, 'memory.bin.gz'))));
const python = await loadPyodide({
  indexURL: `${pyodide}/`,
  packageBaseUrl: `${pyodide}/`,
  _loadSnapshot: snapshot,
  createPyodideModule: creator(snapshot)
});
limitFrames(python);
const bytes = file => new Uint8Array(fs.readFileSync(file));
const extractDir = python.runPython('import site; site.getsitepackages()[0]');
python.unpackArchive(bytes(path.resolve(page, 'packages.zip')), 'zip', { extractDir });
python.unpackArchive(bytes(corpus), 'zip', { extractDir: '/corpus' });
python.globals.set('count', Number(count));
const result = python.runPython(`
import json, random
from pathlib import Path
from cepbook.testing.engines import ENGINES
from cepbook.testing.report import first_difference
from cepbook.testing.runner import Outcome, run
from cepbook.testing.scenario import is_scenario, read

files = [file for file in sorted(Path("/corpus").rglob("*.md")) if is_scenario(file.read_text(encoding="utf-8"))]
cases = [(file, case) for file in files for case in read(file).cases]
if count:
    cases = random.Random(1).sample(cases, count)
wrong = []
for file, case in cases:
    result = run(case, ENGINES["rows"])
    if result.outcome is Outcome.FAILED or result.disagreement is not None:
        wrong.append([f"{file.relative_to('/corpus')}::{case.name}", first_difference(result)])
json.dumps({"cases": len(cases), "wrong": wrong})
`);
console.log(result);
