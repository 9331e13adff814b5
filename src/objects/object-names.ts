/** What both stores accept as names. The limits are those of S3. */
import { createHash } from 'node:crypto';
import type { Description, ObjectName } from './object-store.ts';
import { ObjectStoreError } from './object-store-error.ts';

/** Where S3 keeps the parts of uploads. The folder refuses these keys too, so that objects can move between stores. */
export const RESERVED_PREFIX = '.millrace/uploads/';
const MAX_KEY_BYTES = 1024;
const MAX_UPLOAD_ID_BYTES = 1024;
const MAX_METADATA_BYTES = 2048;
const BUCKET = /^(?!.*\.\.)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const METADATA_NAME = /^[a-z0-9][a-z0-9._-]*$/;
const CONTENT_TYPE = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;
const DEFAULT_CONTENT_TYPE = 'application/octet-stream';

export function requireName({ bucket, key }: ObjectName): void {
  requireBucket(bucket);
  const problem = problemOfKey(key);
  if (problem !== null) throw new ObjectStoreError('INVALID_NAME', `the key ${quote(key)} ${problem}`);
}

function problemOfKey(key: string): string | null {
  if (key === '') return 'is empty';
  if (!key.isWellFormed()) return 'contains half of a surrogate pair';
  if (Buffer.byteLength(key) > MAX_KEY_BYTES) return `has more than ${MAX_KEY_BYTES} bytes`;
  if (key.startsWith(RESERVED_PREFIX)) return `starts with ${RESERVED_PREFIX}, which is reserved for uploads`;
  return null;
}

export function requireBucket(bucket: string): void {
  if (BUCKET.test(bucket)) return;
  const rule = 'must have 3 to 63 lower-case letters, digits, dots and hyphens, and start and end with a letter or digit';
  throw new ObjectStoreError('INVALID_NAME', `the name of the bucket ${quote(bucket)} ${rule}`);
}

export interface CheckedDescription {
  readonly contentType: string;
  readonly metadata: ReadonlyMap<string, string>;
}

export function checkDescription({ contentType = DEFAULT_CONTENT_TYPE, metadata = new Map() }: Description = {}): CheckedDescription {
  if (!CONTENT_TYPE.test(contentType)) {
    throw new ObjectStoreError('INVALID_NAME', `the content type ${quote(contentType)} must be 1 to 255 printable ASCII characters`);
  }
  let bytes = 0;
  for (const [name, value] of metadata) {
    if (!METADATA_NAME.test(name)) {
      const rule = 'must start with a lower-case letter or a digit, and may contain dots, hyphens and underscores';
      throw new ObjectStoreError('INVALID_NAME', `the name of metadata ${quote(name)} ${rule}`);
    }
    if (!value.isWellFormed()) throw new ObjectStoreError('INVALID_NAME', `the metadata ${name} contains half of a surrogate pair`);
    bytes += name.length + escapeMetadata(value).length;
  }
  if (bytes > MAX_METADATA_BYTES) {
    throw new ObjectStoreError('INVALID_NAME', `the metadata has ${bytes} bytes, more than ${MAX_METADATA_BYTES}`);
  }
  return { contentType, metadata: new Map(metadata) };
}

/** A header carries printable ASCII without spaces at its ends. Everything else is percent-encoded, and an empty text is a lone `%`. */
export function escapeMetadata(value: string): string {
  if (value === '') return '%';
  return value.replace(/[^\x20-\x7e]+|%|^ +| +$/g, (text) =>
    Array.from(Buffer.from(text), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

export function unescapeMetadata(value: string): string {
  if (value === '%') return '';
  try {
    return decodeURIComponent(value);
  } catch {
    return value; // Another program wrote it.
  }
}

/** The name under which the bytes of an upload are kept: ids may be any text. */
export function folderOfUpload(uploadId: string): string {
  if (uploadId !== '' && Buffer.byteLength(uploadId) <= MAX_UPLOAD_ID_BYTES) return sha256(uploadId);
  throw new ObjectStoreError('INVALID_NAME', `the id of an upload must have 1 to ${MAX_UPLOAD_ID_BYTES} bytes`);
}

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** S3 lists keys in the order of their bytes. JavaScript compares UTF-16, which differs beyond U+FFFF. */
export const compareKeys = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

const quote = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
