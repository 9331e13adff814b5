import type { ExecutionContext } from '../../services/execution/context.ts';
import { issueKey } from '../../services/execution/issue-key.ts';
import type { Http } from '../door.ts';
import type { Authenticator } from '../shared/identity.ts';
import { answer, named } from '../shared/shapes.ts';
import { openCallOf } from './open-call.ts';
import { bodyMayBeAbsent, ClientParams, callerOf, problemResponses } from './operation.ts';
import { renderKey } from './render-key.ts';
import { ExecutionKey, ExecutionKeyRequest, OpenCallHeaders } from './schemas/client.ts';

const schema = {
  operationId: 'issueKey',
  summary: 'Issue a key',
  description:
    'The first key of a client needs no key. Later calls need a key of the client: they show it again without its secret, or with rotate end it and issue a new one.',
  params: ClientParams,
  headers: OpenCallHeaders,
  body: named(ExecutionKeyRequest),
  response: {
    ...problemResponses(409),
    200: answer(ExecutionKey, 'The key was issued before; its secret cannot be shown again.'),
    201: answer(ExecutionKey, 'A new key. This is the only time its secret is shown.'),
  },
};

// Without a key the service decides: it is the client's first, or refused.
const config = { scopes: ['jobs:write'], isOpenCall: true } as const;

export function issueKeyRoute(
  http: Http,
  context: ExecutionContext,
  { authenticator }: { authenticator: Authenticator },
): void {
  http.post('/clients/:client_id/keys', { schema, config, ...bodyMayBeAbsent }, async (request, reply) => {
    const caller = request.identity === null ? null : callerOf(request);
    const { rotate = false } = request.body;
    const issued = await issueKey(context, {
      ...{ clientId: request.params.client_id, caller, rotate },
      ...openCallOf(request),
    });
    if (caller !== null && issued.isNew) authenticator.forget?.(caller.keyId);
    return reply.code(issued.isNew ? 201 : 200).send(renderKey(issued));
  });
}
