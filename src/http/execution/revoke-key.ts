import type { ExecutionContext } from '../../services/execution/context.ts';
import { revokeClientKey } from '../../services/execution/revoke-client-key.ts';
import type { Http } from '../door.ts';
import type { Authenticator } from '../shared/identity.ts';
import { answer, named } from '../shared/shapes.ts';
import { ClientParams, callerOf, needs, problemResponses } from './operation.ts';
import { ExecutionRevocation, ExecutionRevocationRequest } from './schemas/client.ts';

const schema = {
  operationId: 'revokeKey',
  summary: 'Revoke a key',
  description:
    'Ends a key of the client for good, also the one that asks or the last one. Jobs go on. Revoking again changes nothing.',
  params: ClientParams,
  body: named(ExecutionRevocationRequest),
  response: { ...problemResponses(409), 200: answer(ExecutionRevocation, 'The key is refused from now on.') },
};

export function revokeKeyRoute(
  http: Http,
  context: ExecutionContext,
  { authenticator }: { authenticator: Authenticator },
): void {
  http.post('/clients/:client_id/keys/revoke', { schema, ...needs('jobs:write') }, async (request) => {
    const { key_id: keyId } = request.body;
    const params = { caller: callerOf(request), clientId: request.params.client_id, keyId };
    const revocation = await revokeClientKey(context, params);
    authenticator.forget?.(keyId);
    return revocation;
  });
}
