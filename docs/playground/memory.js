// What begins with the picture of the memory, in the page's worker and in node.

// The browser's stack ends before Python's usual limit of 1,000 frames, and that would be the end of Pyodide.
const MOST_FRAMES = 400;

export const limitFrames = python => python.runPython(`import sys; sys.setrecursionlimit(${MOST_FRAMES})`);

/** Create the module with enough memory for the picture, which is larger than what Pyodide begins with. */
export const creator = snapshot => async settings => {
  const { default: create } = await import('./pyodide/pyodide.asm.mjs');
  const instantiate = settings.instantiateWasm;
  const { length } = await snapshot;
  settings.instantiateWasm = (imports, done) =>
    instantiate(imports, (instance, module) => {
      const { memory } = instance.exports;
      const missing = length - memory.buffer.byteLength;
      if (missing > 0) memory.grow(Math.ceil(missing / 65536));
      return done(instance, module);
    });
  return create(settings);
};
