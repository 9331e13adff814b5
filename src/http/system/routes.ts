import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { checkReadiness } from '../../services/admission/check-readiness.ts';
import type { Http } from '../door.ts';

const Health = Type.Object({ status: Type.Literal('ok') }, { description: 'The process is alive.' });

const READY_MEMBERS = {
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')]),
  ledger: Type.Object({
    reachable: Type.Boolean(),
    latency_ms: Type.Union([Type.Number(), Type.Null()]),
  }),
  workers: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Workers alive and not blocked; null when the database cannot be reached.',
  }),
  reasons: Type.Array(Type.String(), { description: 'Why the server is not ready, and which workers are blocked.' }),
};

const Ready = Type.Object(READY_MEMBERS, { description: 'The server accepts jobs, and a worker is alive.' });
const NotReady = Type.Object(READY_MEMBERS, { description: 'The server is not ready; `reasons` says why.' });

const Version = Type.Object(
  { name: Type.Literal('millrace'), version: Type.String(), node: Type.String() },
  { description: 'The versions of Millrace and of Node.' },
);

const PROBE = { isProbe: true } as const;

/** Health, readiness and version, for load balancers and people. No key is needed. */
export function installSystem(http: Http, { engine, version }: { engine: Engine; version: string }): void {
  const health = { operationId: 'getHealth', summary: 'Is the process alive?', tags: ['system'] };
  http.get('/healthz', { config: PROBE, schema: { ...health, response: { 200: Health } } }, async () => ({
    status: 'ok' as const,
  }));
  const ready = {
    operationId: 'getReadiness',
    summary: 'Can jobs be accepted, and is there a worker to do them?',
    description: 'Ready means that the database answers within a second and at least one worker is alive and not blocked.',
    tags: ['system'],
  };
  const readySchema = { ...ready, response: { 200: Ready, 503: NotReady } };
  http.get('/readyz', { config: PROBE, schema: readySchema }, async (_request, reply) => {
    const readiness = await checkReadiness(engine);
    if (!readiness.ready) reply.code(503).header('retry-after', 1);
    return {
      status: readiness.ready ? ('ready' as const) : ('not_ready' as const),
      ledger: { reachable: readiness.ledger.reachable, latency_ms: readiness.ledger.latencyMs },
      workers: readiness.workers,
      reasons: [...readiness.reasons],
    };
  });
  const about = { operationId: 'getVersion', summary: 'Which version is this?', tags: ['system'] };
  http.get('/version', { config: PROBE, schema: { ...about, response: { 200: Version } } }, async () => ({
    name: 'millrace' as const,
    version,
    node: process.versions.node,
  }));
}
