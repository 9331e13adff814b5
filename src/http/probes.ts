import Fastify from 'fastify';
import type { Engine } from '../engine/engine.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Http } from './door.ts';
import { setConstantHeaders } from './shared/constant-headers.ts';
import { installErrors } from './shared/errors.ts';
import { requestIdOf } from './shared/request-id.ts';
import { originCheck } from './shared/request-origin.ts';
import { installMetrics } from './system/metrics.ts';
import { installSystem } from './system/routes.ts';

export type ProbeOptions = {
  engine: Pick<Engine, 'database'>;
  telemetry: Telemetry;
  version: string;
  /** The names by which clients reach the server, in addition to `localhost` and every IP address. */
  allowedHosts: readonly string[];
};

/** A server for a process without an API: /metrics, /healthz, /readyz and /version. Its requests are not logged. */
export async function buildProbes({ engine, telemetry, version, allowedHosts }: ProbeOptions): Promise<Http> {
  const http = Fastify({ logger: false, genReqId: requestIdOf, bodyLimit: 1_024, requestTimeout: 5_000 }) as unknown as Http;
  http.decorateRequest('problem', null);
  const check = originCheck({ allowedHosts, corsOrigins: [] });
  http.addHook('onRequest', (request, reply, done) => {
    setConstantHeaders(reply, request.id);
    const refusal = check(request.raw, undefined);
    if (refusal === null) done();
    else done(refusal);
  });
  installErrors(http, []);
  installSystem(http, { engine, version });
  installMetrics(http, { engine, telemetry });
  await http.ready();
  return http;
}
