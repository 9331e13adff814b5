import type { Config } from '../config/load-config.ts';
import type { Http } from '../http/door.ts';
import { ingestDoor } from '../http/ingest/door.ts';
import { operatorDoor } from '../http/operators/door.ts';
import { openQueueDoor } from '../http/queue/door.ts';
import { buildServer } from '../http/server.ts';
import { KeyAuthenticator } from '../http/shared/key-authenticator.ts';
import { OrgRateLimiter } from '../http/shared/rate-limiter.ts';
import { safeText } from '../telemetry/safe-fields.ts';
import { composeExecution } from './execution-api.ts';
import { addressOf, listen } from './listen.ts';
import { MissingWorkers } from './missing-workers.ts';
import { JSON_ONLY, type Notices } from './notices.ts';
import type { OperatorToken } from './operator-token.ts';
import type { Platform } from './platform.ts';
import { programVersion } from './program-version.ts';

/** `listen` returns the address. */
export type ApiServer = { listen(): Promise<string>; close(): Promise<void> };

/** How long requests in flight may continue when the server stops. */
const CLOSE_GRACE_MS = 5_000;

export type ApiOptions = { readonly config: Config; readonly out: Notices; readonly operator: OperatorToken };

/** Sets up the HTTP server before it listens, because the setup blocks the event loop for a moment. */
export async function openApi(platform: Platform, { config, out, operator }: ApiOptions): Promise<ApiServer> {
  const { engine, database, telemetry, webhooks, limits, ingest } = platform;
  const { requestsPerMinute, bodyBytes, orgShare } = config.limits;
  const { host, port, allowedHosts, ...bounds } = config.server;
  const authenticator = new KeyAuthenticator({ database });
  const settings = config.execution;
  const { door: executionDoor } = composeExecution({ engine, settings, telemetry, authenticator, webhooks, stored: limits.stored });
  const { queueSize } = config.limits;
  const queueDoor = openQueueDoor({ queueSize, orgShare, admission: limits.queue, simulation: config.simulation.bounds });
  const { context, streams, downloads } = ingest;
  const operators = operatorDoor({ ingest: context, streams, downloads }, { authenticator, token: operator.token });
  const doors = [queueDoor, executionDoor, ingestDoor(context, { authenticator }), operators];
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
      const message = safeText(error instanceof Error ? (error.stack ?? error.message) : String(error));
      telemetry.log.error('request.fault', { request_id: requestId, method, error_code: 'INTERNAL_ERROR', error_message: message });
      out.event({ event: 'fault', requestId, method, path: url.split('?', 1)[0], message }, JSON_ONLY);
    },
  });
  await http.ready();
  const missingWorkers = new MissingWorkers(engine, { out, log: telemetry.log });
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

async function closeInTime(http: Http): Promise<void> {
  const timer = setTimeout(() => http.server.closeAllConnections(), CLOSE_GRACE_MS);
  try {
    await http.close();
  } finally {
    clearTimeout(timer);
  }
}
