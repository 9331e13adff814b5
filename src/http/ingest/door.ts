import type { IngestContext } from '../../services/ingest/context.ts';
import type { Door } from '../door.ts';
import type { Authenticator } from '../shared/identity.ts';
import { NestedError, nestedError } from '../shared/nested-error.ts';
import { named } from '../shared/shapes.ts';
import { Accepted, ManifestBody, submitManifestRoute } from './submit-manifest.ts';

const WORDS = {
  codes: { INVALID_REQUEST: 'INVALID_PAYLOAD', NOT_SERIALIZABLE: 'INVALID_PAYLOAD', QUOTA_EXCEEDED: 'RATE_LIMITED' },
  // The contract has no 503: what the server depends on has failed, and nothing was accepted.
  statuses: { UNAVAILABLE: 500, SHUTTING_DOWN: 500, DATABASE_DISK_FULL: 500, TIMED_OUT: 500, CONFLICT: 500, DUPLICATE: 500 },
} as const;

const RETRY_AFTER_MS = 1_000;

const MEANINGS = {
  400: 'The headers or the manifest are not valid (INVALID_PAYLOAD).',
  401: 'The API key is missing or not valid (UNAUTHORIZED). Only if ingest.auth is "key".',
  403: 'The job type has no section in the configuration (UNSUPPORTED_JOB_TYPE), or the key does not allow this (FORBIDDEN).',
  404: 'The path does not exist (NOT_FOUND).',
  413: 'The manifest is too large after decompression (PAYLOAD_TOO_LARGE).',
  429: 'A limit is reached (RATE_LIMITED); Retry-After says when to retry.',
  500: 'Nothing was accepted, or the outcome is not known (INTERNAL_ERROR). Send the request again with the same idempotency key.',
} as const;

const errorResponses = () =>
  Object.fromEntries(Object.entries(MEANINGS).map(([status, description]) => [status, named(NestedError, { description })]));

/** The ingest API: accepts manifests of resources to download. */
export function ingestDoor(context: IngestContext, { authenticator }: { authenticator: Authenticator }): Door {
  return {
    prefix: '/jobs',
    tag: 'ingest',
    description: 'Submit a manifest of resources. Workers download them to the object store.',
    register(http) {
      for (const shape of [NestedError, ManifestBody, Accepted]) if (http.getSchema(shape.$id) === undefined) http.addSchema(shape);
      submitManifestRoute(http, context, authenticator);
    },
    render: (error, requestId) => nestedError(error, requestId, WORDS).body,
    respond(error, request) {
      const response = nestedError(error, request.id, WORDS);
      if (response.status !== 500 || error.code === 'INTERNAL_ERROR') return response;
      const seconds = Math.max(1, Math.ceil((error.retryAfterMs ?? RETRY_AFTER_MS) / 1_000));
      return { ...response, headers: { 'retry-after': String(seconds) } };
    },
    errorResponses,
  };
}
