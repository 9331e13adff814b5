import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { checkReadiness } from '../../services/admission/check-readiness.ts';
import type { Http } from '../door.ts';

const Health = Type.Object(
  { status: Type.Literal('ok', { description: 'The process is alive.' }) },
  { description: 'The process is alive.' },
);

const READY_MEMBERS = {
  status: Type.Union([Type.Literal('ready'), Type.Literal('not_ready')], { description: 'Whether the server is ready.' }),
  ledger: Type.Object(
    {
      reachable: Type.Boolean({ description: 'Whether the database responded within a second.' }),
      latency_ms: Type.Union([Type.Number(), Type.Null()], { description: 'Its response time; null if it did not respond.' }),
    },
    { description: 'The database.' },
  ),
  workers: Type.Union([Type.Integer(), Type.Null()], {
    description: 'Workers alive and not blocked; null when the database cannot be reached.',
  }),
  reasons: Type.Array(Type.String(), { description: 'Why the server is not ready.' }),
  warnings: Type.Array(
    Type.Object({
      code: Type.String({ description: 'The warning, for programs.' }),
      message: Type.String({ description: 'The warning, for people.' }),
    }),
    {
      description:
        'What needs an operator: RFA_EXEC_WORKER_UNAVAILABLE (no worker is alive), WORKER_STALLED (a handler blocks its worker).',
    },
  ),
};

const Ready = Type.Object(READY_MEMBERS, { description: 'The server accepts jobs.' });
const NotReady = Type.Object(
  { code: Type.String({ description: 'DATABASE_UNREACHABLE, DATABASE_DISK_FULL or RFA_EXEC_WORKER_UNAVAILABLE.' }), ...READY_MEMBERS },
  { description: 'The server is not ready; `code` and `reasons` say why.' },
);

const ReadyQuery = Type.Object({
  workers: Type.Optional(
    Type.Literal('required', { description: 'Return 503 with the code RFA_EXEC_WORKER_UNAVAILABLE if no worker is alive.' }),
  ),
});

const Version = Type.Object(
  {
    name: Type.Literal('millrace', { description: 'The name of the program.' }),
    version: Type.String({ description: 'The version of Millrace.' }),
    node: Type.String({ description: 'The version of Node.' }),
  },
  { description: 'The versions of Millrace and of Node.' },
);

const PROBE = { isProbe: true } as const;

/** Health, readiness and version, for load balancers and people. No key is needed. */
export function installSystem(http: Http, { engine, version }: { engine: Pick<Engine, 'database'>; version: string }): void {
  const health = {
    operationId: 'getHealth',
    summary: 'Is the process alive?',
    description: 'Succeeds while the process can respond. It does not ask the database.',
    tags: ['system'],
  };
  http.get('/healthz', { config: PROBE, schema: { ...health, response: { 200: Health } } }, async () => ({
    status: 'ok' as const,
  }));
  const ready = {
    operationId: 'getReadiness',
    summary: 'Can jobs be accepted?',
    description: [
      'Ready means that the database answers within a second and that its disk is not full. Workers run in other processes, so a missing',
      'worker is a warning. With `workers=required` the server is not ready without a worker that is alive and not blocked.',
    ].join(' '),
    tags: ['system'],
  };
  const readySchema = { ...ready, querystring: ReadyQuery, response: { 200: Ready, 503: NotReady } };
  http.get('/readyz', { config: PROBE, schema: readySchema }, async ({ query }, reply) => {
    const { code, ledger, workers, reasons, warnings } = await checkReadiness(engine, { requiresWorkers: query.workers === 'required' });
    const facts = {
      ledger: { reachable: ledger.reachable, latency_ms: ledger.latencyMs },
      workers,
      reasons: [...reasons],
      warnings: [...warnings],
    };
    if (code === null) return { status: 'ready' as const, ...facts };
    return reply
      .code(503)
      .header('retry-after', 1)
      .send({ status: 'not_ready' as const, code, ...facts });
  });
  const about = {
    operationId: 'getVersion',
    summary: 'Which version is this?',
    description: 'The versions of the program and of Node.',
    tags: ['system'],
  };
  http.get('/version', { config: PROBE, schema: { ...about, response: { 200: Version } } }, async () => ({
    name: 'millrace' as const,
    version,
    node: process.versions.node,
  }));
}
