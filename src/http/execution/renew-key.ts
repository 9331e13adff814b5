import type { FastifyRequest } from 'fastify';
import { parseApiKey } from '../../core/api-key.ts';
import { AppError } from '../../core/errors.ts';
import type { ExecutionContext } from '../../services/execution/context.ts';
import { renewKey } from '../../services/execution/renew-key.ts';
import type { Http } from '../door.ts';
import type { Authenticator } from '../shared/identity.ts';
import { answer, named } from '../shared/shapes.ts';
import { bodyMayBeAbsent, ClientParams, callerOf, needs, problemResponses } from './operation.ts';
import { renderKey } from './render-key.ts';
import { ExecutionKey, ExecutionNothing } from './schemas/client.ts';

const schema = {
  operationId: 'renewKey',
  summary: 'Renew a key',
  description:
    'Gives the key that asks another secret and a new lifetime; its id stays. The old secret ends. Of several calls at once one wins (409 for the others).',
  params: ClientParams,
  body: named(ExecutionNothing),
  response: { ...problemResponses(409), 200: answer(ExecutionKey, 'The key with its new secret, shown this once.') },
};

export function renewKeyRoute(
  http: Http,
  context: ExecutionContext,
  { authenticator }: { authenticator: Authenticator },
): void {
  http.post(
    '/clients/:client_id/keys/renew',
    { schema, ...needs('jobs:write'), ...bodyMayBeAbsent },
    async (request) => {
      const caller = callerOf(request);
      const secretHash = secretHashOf(request);
      const renewed = await renewKey(context, { caller, clientId: request.params.client_id, secretHash });
      authenticator.forget?.(caller.keyId);
      return renderKey(renewed);
    },
  );
}

/** Of the secret that opened the door. */
function secretHashOf({ headers }: Pick<FastifyRequest, 'headers'>): Uint8Array {
  const parsed = parseApiKey(headers.authorization?.trim().split(/ +/)[1] ?? '');
  if (parsed === null) throw new AppError('UNAUTHORIZED');
  return parsed.secretHash;
}
