import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { lookUp } from '../../core/dictionary.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import { RESOURCE_LIMITS } from '../../core/ingest/manifest.ts';
import { manifestUri } from '../../core/ingest/object-key.ts';
import { FIELD_LIMITS } from '../../core/submission-fields.ts';
import type { IngestCaller, IngestContext } from '../../services/ingest/context.ts';
import { countRequest } from '../../services/ingest/count-request.ts';
import { requireOwnTenant, resolveTenant } from '../../services/ingest/resolve-tenant.ts';
import { submitManifest } from '../../services/ingest/submit-manifest.ts';
import type { Http } from '../door.ts';
import { type Authenticator, actorOf, type Identity } from '../shared/identity.ts';
import { signalOf } from '../shared/request-signal.ts';
import { traceOf } from '../shared/request-spans.ts';
import { judgedByService } from '../shared/route-options.ts';
import { answer, named, shape } from '../shared/shapes.ts';

const JOB_TYPE = 'x-fetchbox-job-type';
const TENANT = 'x-fetchbox-tenant';
const IDEMPOTENCY_KEY = 'x-fetchbox-idempotency-key';

/** Values, where a member counts as three. Metadata may have any content that fits the size. */
const MANIFEST_VALUES = 2_000_000;
const ENTRY_VALUES = 1_000_000;
/** They go to the object store and to the handler as they are. */
const FREE_MEMBERS: ReadonlySet<string> = new Set(['metadata', 'attributes']);

const Texts = (description: string) =>
  Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' }, description });

const AnyObject = (description: string) =>
  Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true, description });

const CONTENT =
  'Any content is allowed, with these limits: at most 63 levels of nesting; no member __proto__, and no constructor with a prototype, because they could change objects of a handler; no number beyond a double, such as 1e999; together with the rest of the body outside of resources at most 1,000,000 values, where a member counts as three.';

export const ManifestBody = shape(
  'Manifest',
  {
    manifest_version: Type.Literal('v1'),
    metadata: AnyObject(`Stored as metadata.json, byte for byte as sent. ${CONTENT}`),
    resources: Type.Array(
      Type.Object({
        id: Type.String({ minLength: 1, maxLength: RESOURCE_LIMITS.idCharacters, description: 'Unique in the manifest.' }),
        url: Type.String({
          description: 'An absolute URL. Workers download http and https.',
          examples: ['https://cdn.example.com/image.jpg'],
        }),
        headers: Type.Optional({
          ...Texts('Headers of the request. They replace those of the job type.'),
          maxProperties: RESOURCE_LIMITS.headers,
        }),
        tags: Type.Optional(Texts('For the handler, and stored with the object. A checksum_hint of the form sha256:<hex> is verified.')),
      }),
      { minItems: 1, description: 'What to download: by default at most 1000.' },
    ),
    attributes: Type.Optional(AnyObject(`For the handler. ${CONTENT}`)),
  },
  { description: 'What to download. Members that are not defined here are ignored, and stay in manifest.json.' },
);

export const Accepted = shape('ManifestAccepted', {
  job_id: Type.String({ description: 'A version 7 UUID.' }),
  manifest_key: Type.String({ examples: ['s3://fetchbox/manifests/gallery/0197a5b2-6a86-7b0e-9a53-1a2f3a0b7c11/metadata.json'] }),
  resource_count: Type.Integer({ description: 'The resources of the manifest.' }),
});

const schema = {
  operationId: 'submitManifest',
  summary: 'Submit a manifest of downloads',
  description:
    'Accepts a job for all resources of a manifest. The response is sent after the manifest, the job and its tasks are stored durably. A repeated request with the same idempotency key returns the first job. The body may be compressed with gzip.',
  headers: Type.Object({
    [JOB_TYPE]: Type.String({ description: 'The job type: a section [job_types.<name>] of the configuration, or "default".' }),
    [IDEMPOTENCY_KEY]: Type.Optional(Type.String({ description: 'A second request with the same key returns the first job.' })),
    [TENANT]: Type.Optional(Type.String({ description: 'Whose job it is. Without keys, a new tenant gets an org.' })),
  }),
  body: named(ManifestBody),
  response: { 202: answer(Accepted, 'The job is accepted.') },
};

export function submitManifestRoute(http: Http, context: IngestContext, authenticator: Authenticator): void {
  const { maxManifestBytes: bodyLimit, auth } = context.settings;
  const json = { values: MANIFEST_VALUES, entryValues: ENTRY_VALUES, entryBytes: bodyLimit, anyText: FREE_MEMBERS };
  const config = { json, keepsBytes: true, ...(auth === 'key' ? { security: [{ bearer: ['jobs:write'] }] } : {}) };
  const onRequest = async (request: FastifyRequest): Promise<void> => {
    if (auth === 'key') request.identity = await identify(authenticator, request);
    checkHeaders(request);
  };
  http.post('', { schema, config, ...judgedByService, bodyLimit, onRequest }, async (request, reply) => {
    const accepted = await submitManifest(context, {
      identify: () => callerOf(context, request),
      jobType: textOf(request, JOB_TYPE) as string,
      idempotencyKey: textOf(request, IDEMPOTENCY_KEY),
      bytes: request.bodyBytes ?? Buffer.alloc(0),
      body: request.body,
      signal: signalOf(reply),
    });
    const { jobId, resourceCount } = accepted;
    request.jobId = jobId;
    return reply.code(202).send({ job_id: jobId, manifest_key: manifestUri(accepted), resource_count: resourceCount });
  });
}

/** An empty header counts as absent. */
function textOf({ headers }: FastifyRequest, name: string): string | null {
  const value = lookUp(headers, name);
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}

/** Before the body is read, so that a request without its headers costs little. */
function checkHeaders(request: FastifyRequest): void {
  const type = request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (type !== 'application/json') throw refusal('content-type', 'UNSUPPORTED_MEDIA_TYPE', 'Content-Type must be application/json');
  if (textOf(request, JOB_TYPE) === null)
    throw refusal(JOB_TYPE, 'REQUIRED', 'The header X-Fetchbox-Job-Type is required: name a job type such as "default"');
  const key = textOf(request, IDEMPOTENCY_KEY);
  if (key !== null && key.length > FIELD_LIMITS.idempotencyKey)
    throw refusal(IDEMPOTENCY_KEY, 'TOO_LONG', `X-Fetchbox-Idempotency-Key must have at most ${FIELD_LIMITS.idempotencyKey} characters`);
}

const refusal = (field: string, code: string, message: string): AppError => invalidRequest({ field, code, message });

async function identify(authenticator: Authenticator, { headers: { authorization } }: FastifyRequest): Promise<Identity> {
  const identity = authenticator.recall?.(authorization) ?? (await authenticator.authenticate(authorization));
  if (!identity.scopes.has('jobs:write')) {
    throw new AppError('FORBIDDEN', { message: 'The API key lacks the scope jobs:write. Use a key that has it.' });
  }
  if (identity.projectId !== null || identity.isSelfRegistered) {
    throw new AppError('FORBIDDEN', {
      message: 'The API key may not submit manifests. Use a key of the whole org that an operator created.',
    });
  }
  return identity;
}

async function callerOf(context: IngestContext, request: FastifyRequest): Promise<IngestCaller> {
  const caller = await ownerOf(context, request);
  request.orgId = caller.orgId;
  await countRequest(context, caller.orgId);
  return caller;
}

async function ownerOf(context: IngestContext, request: FastifyRequest): Promise<IngestCaller> {
  const tenant = textOf(request, TENANT);
  const common = { tenant, requestId: request.id, traceparent: traceOf(request), peer: request.ip };
  const { identity } = request;
  if (identity !== null) {
    await requireOwnTenant(context.engine, identity.orgId, tenant);
    return { ...common, orgId: identity.orgId, actor: actorOf(identity) };
  }
  const orgId = await resolveTenant(context.engine, { tenant, defaultOrg: context.settings.defaultOrg });
  return { ...common, orgId, actor: 'system:fetchbox-ingest' };
}
