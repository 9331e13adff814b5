import type { Http } from '../door.ts';

const METHODS = 'GET, POST, PATCH, PUT, DELETE';
const HEADERS = 'authorization, content-type, content-encoding, last-event-id, x-request-id';
const EXPOSED = 'ratelimit, ratelimit-policy, retry-after, x-request-id';
const MAX_AGE_SECONDS = '600';

/** Lets web pages of the named origins call the API. Nobody is named unless the configuration does. */
export function installCors(http: Http, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const allowed = new Set(origins);
  http.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers;
    reply.header('vary', 'origin');
    if (origin === undefined || !allowed.has(origin)) return done();
    reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', EXPOSED);
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return done();
    reply
      .header('access-control-allow-methods', METHODS)
      .header('access-control-allow-headers', HEADERS)
      .header('access-control-max-age', MAX_AGE_SECONDS)
      .code(204)
      .send();
  });
}
