import { Type } from 'typebox';
import { checkExecutionHealth } from '../../services/execution/check-execution-health.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Http } from '../door.ts';
import { answer, shape } from '../shared/shapes.ts';

export const ExecutionHealth = shape(
  'ExecutionHealth',
  {
    status: Type.Literal('ok', { description: 'Jobs can run.' }),
    workers: Type.Integer({ minimum: 1, description: 'How many workers for jobs of this API are alive.' }),
    latency_ms: Type.Number({ description: 'The response time of the database.' }),
  },
  { description: 'The health of the execution API.' },
);

const schema = {
  operationId: 'getExecutionHealth',
  summary: 'Check whether jobs can run',
  description:
    'Succeeds if the database responds within a second (otherwise 504) and a worker is alive (otherwise 503). Without a worker, jobs are accepted and stay queued.',
  response: { 200: answer(ExecutionHealth, 'Jobs can run.') },
};

export function getHealthRoute(http: Http, context: ExecutionContext): void {
  http.get('/health', { schema, config: { isProbe: true } }, async () => {
    const { workers, latencyMs } = await checkExecutionHealth(context);
    return { status: 'ok' as const, workers, latency_ms: latencyMs };
  });
}
