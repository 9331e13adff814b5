import type { ApiKeyScope } from '../../core/api-key.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { type ClientView, readClient } from '../../services/execution/read-client.ts';
import type { Http } from '../door.ts';
import { answer } from '../shared/shapes.ts';
import { callerOf, needs } from './operation.ts';
import { ExecutionClientDetails } from './schemas/client.ts';

const schema = {
  operationId: 'getClient',
  summary: 'Who am I?',
  description: 'The client of the key, its keys without their secrets, and the limits that hold for it.',
  response: { 200: answer(ExecutionClientDetails, 'The client.') },
};

export function getClientRoute(http: Http, context: ExecutionContext): void {
  http.get('/clients/me', { schema, ...needs('jobs:read') }, async (request) =>
    render(await readClient(context, callerOf(request))),
  );
}

const render = ({ clientId, createdAt, keys, limits }: ClientView) => ({
  client_id: clientId,
  created_at: createdAt.toISOString(),
  keys: keys.map(renderKeyInfo),
  limits: {
    requests_per_minute: limits.requestsPerMinute,
    requests_per_day: limits.quota,
    queue_size: limits.queueSize,
    active_jobs: limits.activeJobs,
    payload_bytes: limits.payloadBytes,
    max_runtime_ms: limits.maxRuntimeMs,
  },
});

const renderKeyInfo = (key: ClientView['keys'][number]) => ({
  key_id: key.id,
  name: key.name,
  status: key.status,
  scopes: key.scopes as ApiKeyScope[],
  created_at: key.createdAt.toISOString(),
  expires_at: key.expiresAt.toISOString(),
  last_used_at: key.lastUsedAt?.toISOString() ?? null,
  revoked_at: key.revokedAt?.toISOString() ?? null,
});
