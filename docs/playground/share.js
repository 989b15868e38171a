// The texts in the address: nothing is sent anywhere. docs/how-to/playground.md describes the form.

const bytesOf = text => new TextEncoder().encode(text);

const base64 = bytes => {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
};

const unbase64 = text =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), character => character.charCodeAt(0));

async function through(bytes, stream) {
  const source = new Blob([bytes]).stream().pipeThrough(stream);
  return new Uint8Array(await new Response(source).arrayBuffer());
}

/** The fragment for two texts: plain where it is short, else compressed. */
export async function fragment(module, scenario) {
  const plain = new URLSearchParams({ module, scenario }).toString();
  if (plain.length < 300) return plain;
  return `z=${base64(await through(bytesOf(plain), new CompressionStream('deflate-raw')))}`;
}

/** The texts of a fragment, `{ example }` for the name of an example, or null. */
export async function texts(hash) {
  let parameters = new URLSearchParams(hash.replace(/^#/, ''));
  if (parameters.has('z')) {
    const packed = unbase64(parameters.get('z'));
    const plain = await through(packed, new DecompressionStream('deflate-raw'));
    parameters = new URLSearchParams(new TextDecoder().decode(plain));
  }
  if (parameters.has('example')) return { example: parameters.get('example') };
  if (!parameters.has('module') && !parameters.has('scenario')) return null;
  return { module: parameters.get('module') ?? '', scenario: parameters.get('scenario') ?? '' };
}
