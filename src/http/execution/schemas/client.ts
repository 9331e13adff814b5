import { Type } from 'typebox';
import { API_KEY_SCOPES } from '../../../core/api-key.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word } from '../../shared/shapes.ts';

const CLIENT_ID = '7b1a4e0e-2f4a-4a0b-9a83-0d6f2c1e5b77';
const KEY_ID = '0Ab3dE7gH1jK5';

const ClientId = Type.String({ format: 'uuid', description: 'The id of the client.', examples: [CLIENT_ID] });
const KeyId = Type.String({ description: 'The id of a key. It is not secret.', examples: [KEY_ID] });

export const IDEMPOTENCY_KEY = 'idempotency-key';
export const BOOTSTRAP_TOKEN = 'x-bootstrap-token';
const MAX_KEY_LENGTH = 256;

const IdempotencyKey = Type.Optional(
  Type.String({
    maxLength: MAX_KEY_LENGTH,
    description: 'A repeat with the same key and content creates nothing new.',
  }),
);
const BootstrapToken = Type.Optional(Type.String({ description: 'The bootstrap token of the server, if registration requires one.' }));

/** The headers of requests that create something. */
export const CreationHeaders = Type.Object({ [IDEMPOTENCY_KEY]: IdempotencyKey });

/** The headers of requests that need no API key. */
export const OpenCallHeaders = Type.Object({ [IDEMPOTENCY_KEY]: IdempotencyKey, [BOOTSTRAP_TOKEN]: BootstrapToken });

export const ExecutionNothing = shape('ExecutionNothing', {}, { description: 'An object without members.' });

export const ExecutionClient = shape(
  'ExecutionClient',
  { client_id: ClientId },
  { description: 'A new client.', examples: [{ client_id: CLIENT_ID }] },
);

export const ExecutionKeyRequest = shape(
  'ExecutionKeyRequest',
  {
    rotate: Type.Optional(Type.Boolean({ description: "Revoke the caller's key and issue a new one with the same scopes." })),
  },
  { description: 'Which key to issue.' },
);

export const ExecutionKey = shape(
  'ExecutionKey',
  {
    api_key: textOrNull('The key with its secret, shown only once; null if the key was issued before.'),
    key_id: KeyId,
    created_at: timestamp('When it was issued or renewed.'),
    expires_at: timestamp('When the key expires.'),
  },
  {
    description: 'A key of the client.',
    examples: [
      {
        api_key: null,
        key_id: KEY_ID,
        created_at: '2024-01-15T10:30:00.000Z',
        expires_at: '2024-04-14T10:30:00.000Z',
      },
    ],
  },
);

export const ExecutionRevocationRequest = shape('ExecutionRevocationRequest', { key_id: KeyId }, { description: 'The key to revoke.' });

export const ExecutionRevocation = shape(
  'ExecutionRevocation',
  { revoked: Type.Literal(true, { description: 'The key is revoked.' }) },
  { description: 'A revoked key.' },
);

export const ExecutionKeyInfo = shape(
  'ExecutionKeyInfo',
  {
    key_id: KeyId,
    name: Type.String({ description: 'The name of the key, for people.' }),
    status: word(['active', 'expired', 'revoked'], 'Only an active key is accepted.'),
    scopes: Type.Array(word(API_KEY_SCOPES), { description: 'The permissions of the key.' }),
    created_at: timestamp('When it was issued or renewed.'),
    expires_at: timestamp('When the key expires.'),
    last_used_at: timestampOrNull('To the minute; null if the key was never used.'),
    revoked_at: timestampOrNull('Null if the key is not revoked.'),
  },
  { description: 'A key of the client, without its secret.' },
);

const countOrNull = (description: string) => Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 1, description });

export const ExecutionLimits = shape(
  'ExecutionLimits',
  {
    requests_per_minute: countOrNull('The limit of this client; null if the limit of the server applies (see RateLimit-Policy).'),
    requests_per_day: countOrNull('Requests in a UTC day; null means no limit.'),
    queue_size: Type.Integer({ description: 'How many jobs of all clients may wait in the queue.' }),
    active_jobs: Type.Integer({ description: 'How many jobs of all clients may run at the same time; the others wait.' }),
    payload_bytes: Type.Integer({ description: 'The largest payload of a job.' }),
    max_runtime_ms: Type.Integer({ description: 'A job that runs longer fails.' }),
  },
  { description: 'The limits that apply to the client.' },
);

export const ExecutionClientDetails = shape(
  'ExecutionClientDetails',
  {
    client_id: ClientId,
    created_at: timestamp('When the client was created.'),
    keys: Type.Array(named(ExecutionKeyInfo), {
      description: 'All keys, oldest first, including expired and revoked ones.',
    }),
    limits: named(ExecutionLimits),
  },
  { description: 'A client with its keys and limits.' },
);
