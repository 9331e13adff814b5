import { describe, expect, it } from 'vitest';
import { queueDoor } from './queue-door.ts';
import { bodyOf, serve, testDoor } from './server-fixture.ts';

type Operation = {
  operationId: string;
  summary?: string;
  tags: string[];
  security: Record<string, string[]>[];
  responses: Record<string, { description: string; headers?: object; content?: Record<string, { schema: object }> }>;
};
type Document = {
  openapi: string;
  info: { version: string };
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object>; securitySchemes: object };
};

async function documentOf(doors = [testDoor()]): Promise<Document> {
  const { url } = await serve({ doors });
  return bodyOf(await fetch(`${url}/openapi.json`));
}

const operationsOf = ({ paths }: Document): Operation[] => Object.values(paths).flatMap((item) => Object.values(item));

/** Every `$ref` in the document. */
function refsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => (name === '$ref' && typeof member === 'string' ? [member] : refsIn(member)));
}

describe('GET /openapi.json', () => {
  it('is one OpenAPI 3.1 document with the doors as tags and bearer keys', async () => {
    const { url } = await serve();
    const answer = await fetch(`${url}/openapi.json`);
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await answer.json()).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Millrace', version: '1.2.3' },
      tags: [{ name: 'test', description: 'A door for tests.' }, { name: 'system' }],
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    });
  });

  it('says what a route need not say itself: tag, key, scopes and errors', async () => {
    const { paths } = await documentOf();
    const read = paths['/test/orders/{id}']?.get as Operation;
    expect(read).toMatchObject({ operationId: 'read', tags: ['test'], security: [{ bearer: ['jobs:read'] }] });
    expect(Object.keys(read.responses)).toEqual(expect.arrayContaining(['400', '401', '403', '404', '429', '500', '503']));
    expect(read.responses[503]?.headers).toEqual({
      'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer', minimum: 1 } },
    });
    const open = paths['/test/orders']?.get as Operation;
    expect(open.security).toEqual([]);
    expect(Object.keys(open.responses)).not.toContain('401');
  });

  it('describes the system routes', async () => {
    const { paths } = await documentOf();
    expect(paths['/healthz']?.get?.tags).toEqual(['system']);
    expect(Object.keys(paths['/readyz']?.get?.responses ?? {})).toEqual(expect.arrayContaining(['200', '503']));
    expect(paths['/version']?.get?.security).toEqual([]);
  });
});

describe('the document of the whole API', () => {
  const doors = [queueDoor];

  it('names every operation, once, with a summary and a known tag', async () => {
    const document = await documentOf(doors);
    const operations = operationsOf(document);
    const ids = operations.map(({ operationId }) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(12);
    const tags = document.tags.map(({ name }) => name);
    for (const { operationId, summary, tags: own } of operations) {
      expect({ operationId, summary: typeof summary, known: own.every((tag) => tags.includes(tag)) }).toEqual({
        ...{ operationId, summary: 'string', known: true },
      });
    }
  });

  it('documents the errors of every operation that asks for a key', async () => {
    const document = await documentOf(doors);
    for (const { operationId, security, responses } of operationsOf(document)) {
      const wanted = security.length === 0 ? ['500'] : ['400', '401', '403', '429', '500', '503'];
      const missing = wanted.filter((status) => responses[status] === undefined);
      expect({ operationId, missing }).toEqual({ operationId, missing: [] });
    }
  });

  it('contains no dangling reference', async () => {
    const document = await documentOf(doors);
    const refs = new Set(refsIn(document));
    expect(refs.size).toBeGreaterThan(5);
    for (const ref of refs) expect(document.components.schemas).toHaveProperty([ref.replace('#/components/schemas/', '')]);
  });
});
