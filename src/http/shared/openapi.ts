import swagger from '@fastify/swagger';
import type { FastifyContextConfig, FastifySchema, RouteOptions } from 'fastify';
import { Type } from 'typebox';
import type { Door, Http } from '../door.ts';
import { describedReferences } from './described-references.ts';
import { doorOf } from './errors.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the document says of a route that checks its caller itself. */
    security?: Record<string, string[]>[];
  }
}

/** The members of every error response. A door may add others. */
const ErrorSchema = Type.Object(
  {
    code: Type.String({ description: 'What went wrong, for programs.' }),
    message: Type.String({ description: 'What went wrong, for people. The wording may change.' }),
    details: Type.Array(
      Type.Object({
        field: Type.String({ description: 'The field, as a dotted path.' }),
        code: Type.String({ description: 'The problem, for programs.' }),
        message: Type.String({ description: 'The problem, for people.' }),
      }),
      { description: 'One entry for each problem of the request.' },
    ),
    request_id: Type.String({ description: 'The id of the request, as in the header X-Request-Id.' }),
  },
  { $id: 'Error', additionalProperties: true, description: 'An error response.' },
);

const RETRY_AFTER = { 'Retry-After': { type: 'integer', minimum: 1, description: 'Seconds to wait.' } };
const ERROR_RESPONSES = {
  400: { description: 'The request is not valid; the details name what to correct.' },
  401: { description: 'The API key is missing or not valid.' },
  403: { description: 'The API key does not allow this, or a web page of another site sent the request.' },
  404: { description: 'It does not exist, or it belongs to another org.' },
  429: { description: 'A limit is reached.', headers: RETRY_AFTER },
  500: { description: 'An unexpected error.' },
  503: { description: 'The service is temporarily unavailable.', headers: RETRY_AFTER },
} as const;

type OpenApiOptions = { doors: readonly Door[]; version: string };

/** Collects the schemas of all routes registered after it into one document, served as JSON. */
export async function installOpenApi(http: Http, { doors, version }: OpenApiOptions): Promise<void> {
  http.addSchema(ErrorSchema);
  const describe = describedReferences(http);
  await http.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Millrace',
        version,
        description: 'Durable job execution on PostgreSQL.',
        license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/', description: 'this server' }],
      tags: [
        ...doors.map(({ tag, description }) => ({ name: tag, description })),
        { name: 'system', description: 'The health and the version of the server. No key is needed.' },
      ],
      components: {
        securitySchemes: {
          bearer: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer <key>`.' },
          operator: { type: 'http', scheme: 'bearer', description: 'The operator token: `Authorization: Bearer <token>`.' },
        },
      },
    },
    refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `Schema${index}`) },
    transform: ({ schema, url, route }) => ({ schema: documented({ schema, url, route, doors }), url }),
    transformObject: (parts) => {
      const document = 'openapiObject' in parts ? parts.openapiObject : parts.swaggerObject;
      if ('components' in document) describe(document.components?.schemas ?? {});
      return document;
    },
  });
  serveDocument(http, Object.fromEntries(doors.flatMap(({ webhooks = {} }) => Object.entries(webhooks))));
}

type Documented = { schema: FastifySchema | undefined; url: string; route: RouteOptions; doors: readonly Door[] };

/** Adds what a route does not declare: the tag of its door, the key that it requires, and the errors of every route. */
function documented({ schema = {}, url, route, doors }: Documented): FastifySchema {
  const door = doorOf(url, doors);
  const config = route.config ?? {};
  const method = [route.method].flat()[0] as string;
  const own = (schema.response ?? {}) as Record<string, unknown>;
  return {
    ...schema,
    tags: schema.tags ?? [door?.tag ?? 'system'],
    operationId: schema.operationId ?? operationIdOf(method, url),
    security: securityOf(config),
    response: { ...(door?.errorResponses?.({ method, schema, config }) ?? errorResponses(schema, config)), ...own },
  } as FastifySchema;
}

/** An empty list means that the operation takes no key. An empty member means that the key is optional. */
function securityOf({ scopes, isOpenCall, security }: FastifyContextConfig): Record<string, string[]>[] {
  if (security !== undefined) return security;
  if (scopes === undefined) return [];
  const key = { bearer: [...scopes] };
  return isOpenCall === true ? [key, {}] : [key];
}

function errorResponses(schema: FastifySchema, { scopes, isProbe }: FastifyContextConfig): Record<string, unknown> {
  const statuses = [
    ...([400, 403] as const),
    ...(scopes === undefined ? [] : ([401, 429] as const)),
    ...(schema.params === undefined ? [] : ([404] as const)),
    ...([500] as const),
    ...(isProbe === true ? [] : ([503] as const)),
  ];
  return Object.fromEntries(statuses.map((status) => [status, { $ref: 'Error#', ...ERROR_RESPONSES[status] }] as const));
}

/** `GET /queue/v1/jobs/{id}` as `getQueueV1JobsId`. */
function operationIdOf(method: string, url: string): string {
  const words = url.split(/[^A-Za-z0-9]+/).filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function serveDocument(http: Http, webhooks: Readonly<Record<string, unknown>>): void {
  let text: string | null = null;
  http.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
    text ??= JSON.stringify({ ...http.swagger(), webhooks });
    return reply.type('application/json; charset=utf-8').send(text);
  });
}
