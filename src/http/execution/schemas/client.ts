import { Type } from 'typebox';
import { API_KEY_SCOPES } from '../../../core/api-key.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word } from '../../shared/shapes.ts';

const CLIENT_ID = '7b1a4e0e-2f4a-4a0b-9a83-0d6f2c1e5b77';
const KEY_ID = '0Ab3dE7gH1jK5';

const ClientId = Type.String({ format: 'uuid', description: 'The id of the client.', examples: [CLIENT_ID] });
const KeyId = Type.String({ description: 'The id of a key. It is no secret.', examples: [KEY_ID] });

export const IDEMPOTENCY_KEY = 'idempotency-key';
export const BOOTSTRAP_TOKEN = 'x-bootstrap-token';
const MAX_KEY_LENGTH = 256;

const IdempotencyKey = Type.Optional(
  Type.String({
    maxLength: MAX_KEY_LENGTH,
    description: 'A request with the same key and the same content creates nothing again.',
  }),
);
const BootstrapToken = Type.Optional(
  Type.String({ description: 'The token of the server, where registration needs one.' }),
);

/** The headers of the calls that create something. */
export const CreationHeaders = Type.Object({ [IDEMPOTENCY_KEY]: IdempotencyKey });

/** The headers of the calls that need no API key. */
export const OpenCallHeaders = Type.Object({ [IDEMPOTENCY_KEY]: IdempotencyKey, [BOOTSTRAP_TOKEN]: BootstrapToken });

export const ExecutionNothing = shape('ExecutionNothing', {}, { description: 'An object without members.' });

export const ExecutionClient = shape(
  'ExecutionClient',
  { client_id: ClientId },
  { description: 'A new client.', examples: [{ client_id: CLIENT_ID }] },
);

export const ExecutionKeyRequest = shape('ExecutionKeyRequest', {
  rotate: Type.Optional(
    Type.Boolean({ description: 'End the key that asks and issue a new one with the same permissions.' }),
  ),
});

export const ExecutionKey = shape(
  'ExecutionKey',
  {
    api_key: textOrNull('The key with its secret, shown this once; null where the key was issued before.'),
    key_id: KeyId,
    created_at: timestamp('When it was issued or renewed.'),
    expires_at: timestamp('From when on it is refused.'),
  },
  {
    description: 'A key of the client.',
    examples: [
      {
        ...{ api_key: null, key_id: KEY_ID },
        ...{ created_at: '2024-01-15T10:30:00.000Z', expires_at: '2024-04-14T10:30:00.000Z' },
      },
    ],
  },
);

export const ExecutionRevocationRequest = shape('ExecutionRevocationRequest', { key_id: KeyId });

export const ExecutionRevocation = shape('ExecutionRevocation', { revoked: Type.Literal(true) });

const ExecutionKeyInfo = shape('ExecutionKeyInfo', {
  key_id: KeyId,
  name: Type.String(),
  status: word(['active', 'expired', 'revoked']),
  scopes: Type.Array(word(API_KEY_SCOPES), { description: 'What it may do.' }),
  created_at: timestamp('When it was issued or renewed.'),
  expires_at: timestamp('From when on it is refused.'),
  last_used_at: timestampOrNull('To the minute; null when it never was.'),
  revoked_at: timestampOrNull('Null while it holds.'),
});

const countOrNull = (description: string) =>
  Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 1, description });

const ExecutionLimits = shape('ExecutionLimits', {
  requests_per_minute: countOrNull('Of this client; null where the limit of the server holds (see RateLimit-Policy).'),
  requests_per_day: countOrNull('In a UTC day; null is without limit.'),
  queue_size: Type.Integer({ description: 'Jobs of all clients that may wait in the queue.' }),
  active_jobs: Type.Integer({ description: 'Jobs of all clients that may run at once; the others wait.' }),
  payload_bytes: Type.Integer({ description: 'The largest payload of a job.' }),
  max_runtime_ms: Type.Integer({ description: 'A job that runs longer has failed.' }),
});

export const ExecutionClientDetails = shape('ExecutionClientDetails', {
  client_id: ClientId,
  created_at: timestamp('When the client was made.'),
  keys: Type.Array(named(ExecutionKeyInfo), { description: 'Oldest first, with those that no longer hold.' }),
  limits: named(ExecutionLimits),
});

export const CLIENT_SHAPES = [
  ...[ExecutionNothing, ExecutionClient, ExecutionKeyRequest, ExecutionKey, ExecutionRevocationRequest],
  ...[ExecutionRevocation, ExecutionKeyInfo, ExecutionLimits, ExecutionClientDetails],
];
