import type { ExecutionContext } from '../../services/execution/context.ts';
import { createClient } from '../../services/execution/create-client.ts';
import type { Http } from '../door.ts';
import { answer, named } from '../shared/shapes.ts';
import { openCallOf } from './open-call.ts';
import { bodyMayBeAbsent, problemResponses } from './operation.ts';
import { ExecutionClient, ExecutionNothing, OpenCallHeaders } from './schemas/client.ts';

const schema = {
  operationId: 'createClient',
  summary: 'Make a client',
  description:
    'Needs no key, only the token of the server where registration asks for one. A repeat with the same Idempotency-Key from the same address answers with the same client.',
  headers: OpenCallHeaders,
  body: named(ExecutionNothing),
  response: { ...problemResponses(401), 201: answer(ExecutionClient, 'The client. Its first key is issued next.') },
};

export function createClientRoute(http: Http, context: ExecutionContext): void {
  http.post('/clients', { schema, config: { isOpenCall: true }, ...bodyMayBeAbsent }, async (request, reply) => {
    const { clientId } = await createClient(context, { address: request.ip, ...openCallOf(request) });
    return reply.code(201).send({ client_id: clientId });
  });
}
