import { AppError, type Issue, invalidRequest } from './errors.ts';
import type { AuditAction, Requester } from './governance/audit-action.ts';

/** A file that belongs to an org, and to a job if its handler wrote it. */
export type Artifact = {
  readonly id: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly jobId: string | null;
  /** The attempt of the job that wrote it. */
  readonly attempt: number | null;
  readonly name: string;
  readonly contentType: string;
  readonly purpose: ArtifactPurpose | null;
  readonly size: number;
  /** 64 hexadecimal digits. */
  readonly sha256: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
};

/** Where the bytes of an artifact are. */
export type ObjectPlace = { readonly bucket: string; readonly key: string };

export const ARTIFACT_PURPOSES = ['import'] as const;

export type ArtifactPurpose = (typeof ARTIFACT_PURPOSES)[number];

/** The bytes of an object. The reader reads them to the end, or destroys them. */
export type StoredBytes = AsyncIterable<Uint8Array> & { destroy(error?: Error): unknown };

/** What artifacts need of an object store. */
export type ArtifactStore = {
  /** Writes all bytes or nothing. */
  put(
    name: ObjectPlace,
    body: AsyncIterable<Uint8Array>,
    options?: { readonly contentType?: string; readonly signal?: AbortSignal },
  ): Promise<unknown>;
  /** Both ends of the range are included. `info.size` is the size of the whole object. */
  get(
    name: ObjectPlace,
    range?: { readonly start: number; readonly end?: number },
  ): Promise<{ readonly info: { readonly size: number }; readonly body: StoredBytes } | null>;
  delete(name: ObjectPlace): Promise<unknown>;
};

export const DEFAULT_ARTIFACT_BYTES = 5_368_709_120;
export const DEFAULT_ARTIFACT_RETENTION_MS = 30 * 86_400_000;
const MAX_ARTIFACT_NAME = 255;
export const DEFAULT_CONTENT_TYPE = 'application/octet-stream';

const CONTENT_TYPE = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;
const SHA256 = /^[0-9a-f]{64}$/i;
/** Control characters, and the ones that reorder the text around them. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

/** Ids only: a key never contains text of a user. */
export const artifactKeyOf = (orgId: string, id: string): string => `artifacts/${orgId}/${id}`;

/** The problem of a name, or null. A name may contain slashes and dots: it is shown and never used as a path. */
export function problemOfName(name: unknown): Issue | null {
  const issue = (code: string, message: string): Issue => ({ field: 'name', code, message: `The name of an artifact ${message}.` });
  if (typeof name !== 'string') return issue('INVALID_TYPE', 'must be a string');
  if (name.trim() === '') return issue('REQUIRED', 'must not be empty');
  if ([...name].length > MAX_ARTIFACT_NAME) return issue('TOO_LONG', `must have at most ${MAX_ARTIFACT_NAME} characters`);
  if (UNPRINTABLE.test(name))
    return issue('INVALID_VALUE', 'must not contain control characters or marks that change the direction of text');
  return null;
}

export function checkContentType(contentType: unknown): Issue | null {
  if (typeof contentType === 'string' && CONTENT_TYPE.test(contentType)) return null;
  const message = 'The content type must have 1 to 255 printable ASCII characters, such as text/csv.';
  return { field: 'contentType', code: 'INVALID_VALUE', message };
}

/** The checksum in lower case. */
export function readChecksum(given: string, field: string): string {
  if (SHA256.test(given)) return given.toLowerCase();
  throw invalidRequest({ field, code: 'INVALID_VALUE', message: `${field} must be a SHA-256 checksum of 64 hexadecimal digits.` });
}

export function checksumMismatch(field: string, { announced, actual }: { announced: string; actual: string }): AppError {
  const message = `The bytes have the SHA-256 checksum ${actual}, and ${field} says ${announced}. Nothing was stored. Send the file again.`;
  return invalidRequest({ field, code: 'CHECKSUM_MISMATCH', message });
}

export function artifactTooLarge(maxBytes: number): AppError {
  const message = `An artifact may have at most ${maxBytes} bytes (artifacts.max_size). Nothing was stored. Send a smaller file, or several.`;
  return invalidRequest({ field: 'body', code: 'PAYLOAD_TOO_LARGE', message });
}

export const noSuchArtifact = (id: string): AppError =>
  new AppError('NOT_FOUND', { message: `Artifact ${id.slice(0, 100)} does not exist, or has expired.` });

/** What the audit trail shows of a new artifact. */
export const artifactCreated = (artifact: Artifact, requester: Requester, jobType: string | null = null): AuditAction => ({
  orgId: artifact.orgId,
  projectId: artifact.projectId,
  event: 'artifact.created',
  requester,
  jobId: artifact.jobId,
  jobType,
  attempt: artifact.attempt,
  details: { artifact_id: artifact.id, name: artifact.name, size: artifact.size, sha256: artifact.sha256, purpose: artifact.purpose },
});
