import cors from '@fastify/cors';
import type { Http } from '../door.ts';

/** Lets web pages of the configured origins call the API. No origin is allowed by default. */
export async function installCors(http: Http, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return;
  const allowed = new Set(origins);
  await http.register(cors, {
    // With a list the plugin would return 204 to preflight requests of every origin.
    origin: (origin, decide) => decide(null, origin !== undefined && allowed.has(origin) ? origin : false),
    methods: ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', 'content-encoding', 'last-event-id', 'x-request-id'],
    exposedHeaders: ['ratelimit', 'ratelimit-policy', 'retry-after', 'x-request-id'],
    maxAge: 600,
    strictPreflight: false,
  });
}
