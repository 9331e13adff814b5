/** A server with a door of its own for tests, on a real socket. */
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect } from 'node:net';
import { Type } from 'typebox';
import { onTestFinished } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import { AppError } from '../../src/core/errors.ts';
import { DEFAULT_LIMITS } from '../../src/core/submission.ts';
import type { Engine } from '../../src/engine/engine.ts';
import type { Door, Http } from '../../src/http/door.ts';
import { buildServer, type ServerOptions } from '../../src/http/server.ts';
import type { Identity } from '../../src/http/shared/identity.ts';

export const IDENTITY: Identity = {
  orgId: '11111111-1111-4111-8111-111111111111',
  keyId: 'k1',
  projectId: null,
  scopes: new Set(API_KEY_SCOPES),
  isSelfRegistered: false,
};

/** What stands in for an engine where no route asks for one. */
const NO_ENGINE = { limits: DEFAULT_LIMITS } as Engine;

const ORDER = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 10 }),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: 5 })),
    kind: Type.Optional(Type.Union([Type.Literal('FAST'), Type.Literal('SLOW')])),
    note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    items: Type.Optional(Type.Array(Type.Object({ id: Type.String({ pattern: '^i' }) }))),
  },
  { additionalProperties: false },
);

const FILTER = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1 })),
    all: Type.Optional(Type.Boolean()),
    states: Type.Optional(Type.Array(Type.String())),
    text: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);

/** Routes for what every door relies on. `error` decides what `/test/throw` throws, `hold` what `/test/hold` waits for. */
export function testDoor(parts: { error?: () => unknown; hold?: () => Promise<unknown> } = {}): Door {
  return {
    prefix: '/test',
    tag: 'test',
    description: 'A door for tests.',
    render: (error, requestId) => ({ door: 'test', code: error.code, details: error.details, request_id: requestId }),
    register(http: Http) {
      http.post('/echo', { schema: { operationId: 'echo' }, bodyLimit: 4_096 }, async (request) => ({
        body: request.body ?? null,
      }));
      http.post('/large', { schema: { operationId: 'large' }, bodyLimit: 1_048_576 }, async (request) => ({
        size: JSON.stringify(request.body).length,
      }));
      http.post('/orders', { schema: { operationId: 'order', body: ORDER } }, async (request) => request.body);
      http.get('/orders', { schema: { operationId: 'find', querystring: FILTER } }, async (request) => request.query);
      http.get(
        '/orders/:id',
        {
          config: { scopes: ['jobs:read'] },
          schema: { operationId: 'read', params: Type.Object({ id: Type.String({ format: 'uuid' }) }) },
        },
        async (request) => ({ id: request.params.id, org: request.identity?.orgId }),
      );
      http.post('/keep', { schema: { operationId: 'keep' }, bodyLimit: 1_048_576 }, async () => ({ held: (await parts.hold?.()) ?? null }));
      http.get('/throw', { schema: { operationId: 'throw' } }, async () => {
        throw parts.error?.();
      });
      http.get('/hold', { schema: { operationId: 'hold' } }, async () => ({ held: (await parts.hold?.()) ?? null }));
    },
  };
}

export type Served = { http: Http; url: string; port: number };

/** Listens on a port of its own until the test has finished. */
export async function serve(options: Partial<ServerOptions> = {}): Promise<Served> {
  const http = await buildServer({
    engine: NO_ENGINE,
    doors: [testDoor()],
    version: '1.2.3',
    // Requests that a test writes by hand name this host.
    allowedHosts: ['x'],
    authenticator: {
      async authenticate(authorization) {
        if (authorization !== 'Bearer good') throw new AppError('UNAUTHORIZED');
        return IDENTITY;
      },
    },
    limiter: { take: () => ({ allowed: true, limit: 600, remaining: 599, resetMs: 1_000 }) },
    ...options,
  });
  await http.listen({ port: 0, host: '127.0.0.1' });
  onTestFinished(async () => {
    http.server.closeAllConnections();
    await http.close();
  });
  const { port } = http.server.address() as AddressInfo;
  return { http, url: `http://127.0.0.1:${port}`, port };
}

export const post = (url: string, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, { method: 'POST', body: body as string, headers: { 'content-type': 'application/json', ...headers } });

/** A connection on which a test writes what it likes. */
export async function dial(port: number): Promise<Socket & { received(): string; whenClosed: Promise<unknown> }> {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    received += text;
  });
  socket.on('error', () => {});
  onTestFinished(() => {
    socket.destroy();
  });
  // Not `once`, which rejects when the server closes the connection under a write.
  const whenClosed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await once(socket, 'connect');
  return Object.assign(socket, { received: () => received, whenClosed });
}

/** An answer's body, as the test knows it to be. */
// biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects to find
export const bodyOf = (answer: Response): Promise<any> => answer.json();
