import { checkExecutionHealth } from '../../services/execution/check-execution-health.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import type { Http } from '../door.ts';
import { answer } from '../shared/shapes.ts';
import { ExecutionHealth } from './schemas/health.ts';

const schema = {
  operationId: 'getExecutionHealth',
  summary: 'Would a job be done now?',
  description:
    'The database must answer within a second (504 otherwise) and some worker must be alive (503 otherwise). Jobs are accepted and wait while there is no worker.',
  response: { 200: answer(ExecutionHealth, 'Jobs are accepted, and there is a worker.') },
};

export function getHealthRoute(http: Http, context: ExecutionContext): void {
  http.get('/health', { schema, config: { isProbe: true } }, async () => {
    const { workers, latencyMs } = await checkExecutionHealth(context);
    return { status: 'ok' as const, workers, latency_ms: latencyMs };
  });
}
