import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { artifactTooLarge, type Artifact as StoredArtifact } from '../../core/artifact.ts';
import { AppError } from '../../core/errors.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { requireStorage } from '../../engine/artifacts/artifact-storage.ts';
import type { Engine } from '../../engine/engine.ts';
import { followLink, linkArtifact } from '../../services/artifacts/link-artifact.ts';
import { listJobArtifacts, readArtifact } from '../../services/artifacts/read-artifacts.ts';
import { uploadArtifact } from '../../services/artifacts/upload-artifact.ts';
import type { Http } from '../door.ts';
import { withoutTimeLimit } from '../shared/connection-errors.ts';
import type { Uploads } from '../shared/uploads.ts';
import { sendContent } from './artifact-content.ts';
import { readUploadHeaders } from './artifact-headers.ts';
import { bodyMayBeAbsent, callerOf, needs, noSuchJob, requesterOf } from './operation.ts';
import {
  Artifact,
  ArtifactHeaders,
  ArtifactLink,
  ArtifactList,
  ArtifactListQuery,
  ArtifactParams,
  ContentQuery,
  LinkRequest,
} from './schemas/artifact.ts';
import { ApiError, answer, errorResponses } from './schemas/error.ts';
import { JobParams, named } from './schemas/shapes.ts';

const ABSENT = { 404: answer(ApiError, 'The org of the key has no such artifact, or it has expired (NOT_FOUND).') };
const ANY_TYPE = /^[\s\S]*$/;

const uploadSchema = {
  operationId: 'uploadArtifact',
  summary: 'Upload an artifact',
  description:
    'Stores the body as a file of the org. The bytes go to the object store as they arrive. If the checksum of the request is not that of the bytes, or the client goes away, nothing is stored.',
  headers: ArtifactHeaders,
  consumes: ['application/octet-stream'],
  response: { 201: answer(Artifact, 'The file is stored.'), ...errorResponses() },
};

/** The bytes of a request as they arrive. The connection ends if they come too slowly. */
async function* bytesOf(message: IncomingMessage, uploads: Uploads | undefined): AsyncGenerator<Uint8Array, void> {
  const upload = uploads?.begin(message);
  try {
    // An error of the store must not destroy the connection, on which the response is sent.
    for await (const chunk of message.iterator({ destroyOnReturn: false })) {
      if (upload !== undefined) upload.received += (chunk as Buffer).length;
      yield chunk as Buffer;
    }
  } finally {
    if (upload !== undefined) uploads?.end(upload);
  }
}

/** In a scope of its own, where a body is not parsed. */
export function uploadArtifactRoute(http: Http, engine: Engine): void {
  void http.register(async (plain) => {
    const scope = plain as unknown as Http;
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(ANY_TYPE, (_request, _payload, done) => done(null, undefined));
    const config = { ...needs('jobs:write').config, takesFiles: true };
    scope.post('/artifacts', { schema: uploadSchema, config }, async (request, reply) => {
      const { maxBytes } = requireStorage(engine.artifacts);
      const described = readUploadHeaders(request.headers);
      if (Number(request.headers['content-length'] ?? 0) > maxBytes) throw artifactTooLarge(maxBytes);
      const reason = request.headers['x-reason'] ?? null;
      const stored = await receiving(request, () =>
        uploadArtifact(engine, {
          ...callerOf(request).owner,
          ...described,
          source: bytesOf(request.raw, http.uploads),
          requester: requesterOf(request, reason),
        }),
      );
      return reply.code(201).send(renderArtifact(stored));
    });
  });
}

/** A request whose body still arrives counts as one, and may take as long as its bytes need. */
async function receiving<T>(request: FastifyRequest, work: () => Promise<T>): Promise<T> {
  const crowded = request.inFlight?.awaitBody();
  if (crowded !== undefined) throw crowded;
  return withoutTimeLimit(request.raw.socket, work);
}

const listSchema = {
  operationId: 'listArtifacts',
  summary: 'List the artifacts of a job',
  description: 'Returns the files that the handler of a job stored, oldest first. They may outlive the job.',
  params: JobParams,
  querystring: ArtifactListQuery,
  response: { 200: answer(ArtifactList, 'A page of files.'), ...errorResponses(404) },
};

const getSchema = {
  operationId: 'getArtifact',
  summary: 'Get an artifact',
  description: 'Returns what is known about a file. GET /queue/v1/artifacts/{artifact_id}/content returns its bytes.',
  params: ArtifactParams,
  response: { 200: answer(Artifact, 'The file.'), ...errorResponses(), ...ABSENT },
};

export function readArtifactRoutes(http: Http, engine: Engine): void {
  http.get('/jobs/:id/artifacts', { schema: listSchema, ...needs('jobs:read') }, async (request) => {
    const { id } = request.params;
    const { limit = 100, cursor } = request.query;
    const page = await listJobArtifacts(engine, { ...callerOf(request).owner, jobId: id, limit, cursor });
    if (page === null) throw noSuchJob(id);
    return { items: page.artifacts.map(renderArtifact), next_cursor: page.nextCursor };
  });
  http.get('/artifacts/:artifact_id', { schema: getSchema, ...needs('jobs:read') }, async (request) => {
    const { artifact } = await readArtifact(engine, { ...callerOf(request).owner, id: request.params.artifact_id });
    return renderArtifact(artifact);
  });
}

const BYTES = {
  description: 'The bytes, as an attachment.',
  content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
};

const contentSchema = {
  operationId: 'getArtifactContent',
  summary: 'Get the bytes of an artifact',
  description:
    'Returns the bytes. The ETag is the SHA-256 checksum; Range, If-Range and If-None-Match work as in RFC 9110. A signed link replaces the key. A link that was altered or has expired is refused with 403.',
  params: ArtifactParams,
  querystring: ContentQuery,
  response: {
    200: BYTES,
    206: { ...BYTES, description: 'The bytes of the range.' },
    304: { description: 'The caller has these bytes already.', type: 'null' },
    ...errorResponses(),
    ...ABSENT,
    416: answer(ApiError, 'No byte of the range exists (INVALID_REQUEST).'),
  },
};

const linkSchema = {
  operationId: 'linkArtifact',
  summary: 'Make a link to an artifact',
  description: 'Returns a signed address of the bytes that works without a key until it expires.',
  params: ArtifactParams,
  body: named(LinkRequest),
  response: { 200: answer(ArtifactLink, 'The link.'), ...errorResponses(), ...ABSENT },
};

export function artifactContentRoutes(http: Http, engine: Engine): void {
  const open = { config: { ...needs('jobs:read').config, isOpenCall: true } };
  http.get('/artifacts/:artifact_id/content', { schema: contentSchema, ...open }, async (request, reply) => {
    const { artifact_id: id } = request.params;
    const { link } = request.query;
    if (link === undefined && request.identity === null) {
      reply.header('www-authenticate', 'Bearer realm="millrace"');
      throw new AppError('UNAUTHORIZED');
    }
    const found =
      link === undefined ? await readArtifact(engine, { ...callerOf(request).owner, id }) : await followLink(engine, { id, token: link });
    return sendContent({ engine, request, reply }, found);
  });
  http.post('/artifacts/:artifact_id/link', { schema: linkSchema, ...needs('jobs:read'), ...bodyMayBeAbsent }, async (request) => {
    const { artifact_id: id } = request.params;
    const { expires_in: expiresIn, reason = null } = request.body;
    const link = await linkArtifact(engine, { ...callerOf(request).owner, id, expiresIn, requester: requesterOf(request, reason) });
    const url = new URL(`/queue/v1/artifacts/${id.toLowerCase()}/content`, `${request.protocol}://${request.host}`);
    url.searchParams.set('link', link.token);
    return { url: url.href, expires_at: formatTimestamp(link.expiresAt) };
  });
}

export const renderArtifact = (artifact: StoredArtifact): Static<typeof Artifact> => ({
  artifact_id: artifact.id,
  name: artifact.name,
  size: artifact.size,
  sha256: artifact.sha256,
  content_type: artifact.contentType,
  purpose: artifact.purpose,
  attempt: artifact.attempt,
  created_at: formatTimestamp(artifact.createdAt),
  expires_at: formatTimestamp(artifact.expiresAt),
  owner: { org_id: artifact.orgId, project_id: artifact.projectId, job_id: artifact.jobId },
});
