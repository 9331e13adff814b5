import type { AddressInfo } from 'node:net';
import type { Config } from '../config/load-config.ts';
import { AppError } from '../core/errors.ts';
import type { Http } from '../http/door.ts';
import { openQueueDoor } from '../http/queue/door.ts';
import { buildServer } from '../http/server.ts';
import { KeyAuthenticator } from '../http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../http/shared/rate-limiter.ts';
import { composeExecution } from './execution-api.ts';
import { MissingWorkers } from './missing-workers.ts';
import type { Notices } from './notices.ts';
import type { Platform } from './platform.ts';
import { programVersion } from './program-version.ts';

/** `listen` returns the address. */
export type ApiServer = { listen(): Promise<string>; close(): Promise<void> };

/** How long requests in flight may continue when the server stops. */
const CLOSE_GRACE_MS = 5_000;

/** Sets up the HTTP server before it listens, because the setup blocks the event loop for a moment. */
export async function openApi(platform: Platform, { config, out }: { config: Config; out: Notices }): Promise<ApiServer> {
  const { engine, database, telemetry, webhooks, limits } = platform;
  const { requestsPerMinute, bodyBytes, orgShare } = config.limits;
  const { host, port, allowedHosts, ...bounds } = config.server;
  const authenticator = new KeyAuthenticator({ database });
  const settings = config.execution;
  const { door: executionDoor } = composeExecution({ engine, settings, telemetry, authenticator, webhooks, stored: limits.stored });
  const { queueSize } = config.limits;
  const queueDoor = openQueueDoor({ queueSize, orgShare, admission: limits.queue, simulation: config.simulation.bounds });
  const doors = [queueDoor, executionDoor];
  const http = await buildServer({
    ...bounds,
    allowedHosts: [host, ...allowedHosts],
    engine,
    authenticator,
    doors,
    telemetry,
    version: programVersion(),
    orgShare,
    limiter: new OrgRateLimiter({ database, requestsPerMinute }),
    bodyLimitBytes: bodyBytes ?? undefined,
    onFault: ({ error, requestId, method, url }) => {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      out.event(
        { event: 'fault', requestId, method, path: url.split('?', 1)[0], message },
        // Only the first line begins at the margin, so that no part of a message looks like another event.
        `A request failed unexpectedly (${requestId}): ${message}`.split(/\n\s*/).map((line, at) => (at === 0 ? line : `    ${line}`)),
      );
    },
  });
  await http.ready();
  const missingWorkers = new MissingWorkers(engine, out);
  return {
    async listen() {
      await listen(http, { host, port });
      setImmediate(() => missingWorkers.start()); // After the greeting.
      return addressOf(http, host);
    },
    async close() {
      missingWorkers.stop();
      await closeInTime(http);
      await authenticator.close();
    },
  };
}

async function listen(http: Http, address: { host: string; port: number }): Promise<void> {
  try {
    await http.listen(address);
  } catch (cause) {
    throw new AppError('UNAVAILABLE', { message: explainListen(cause, address), cause });
  }
}

function explainListen(cause: unknown, { host, port }: { host: string; port: number }): string {
  const code = (cause as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE') return `Port ${port} of ${host} is in use. Choose another with --port N, or stop what uses it.`;
  if (code === 'EACCES') return `This user may not listen on port ${port}. Choose one above 1023 with --port N.`;
  const why = cause instanceof Error ? cause.message : String(cause);
  return `The server cannot listen on ${host}, port ${port}: ${why}. Choose another address with --host and --port.`;
}

/** An address that works in a browser on this machine. */
function addressOf(http: Http, host: string): string {
  const { port } = http.server.address() as AddressInfo;
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return `http://${shown}:${port}`;
}

async function closeInTime(http: Http): Promise<void> {
  const timer = setTimeout(() => http.server.closeAllConnections(), CLOSE_GRACE_MS);
  try {
    await http.close();
  } finally {
    clearTimeout(timer);
  }
}
