// A service worker that keeps the files of the page, so that the page works without a network once it was loaded.
// tools/playground.py fills in the version and the files. A new version replaces the old one when no page is open.
const PREFIX = 'cepbook-playground-';
const CACHE = PREFIX + 'VERSION';
const FILES = ['FILES'];

self.addEventListener('install', event => {
  event.waitUntil(caches.open(CACHE).then(cache => cache.addAll(FILES)));
});

self.addEventListener('activate', event => {
  const old = caches.keys().then(names => names.filter(name => name.startsWith(PREFIX) && name !== CACHE));
  event.waitUntil(old.then(names => Promise.all(names.map(name => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener('fetch', event => {
  const { method, url } = event.request;
  if (method !== 'GET' || !url.startsWith(self.registration.scope)) return;
  const kept = caches.open(CACHE).then(cache => cache.match(event.request, { ignoreSearch: true }));
  event.respondWith(kept.then(response => response ?? fetch(event.request)));
});
