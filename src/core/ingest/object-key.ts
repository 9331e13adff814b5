import { createHash } from 'node:crypto';

/** File systems allow 255 bytes in a name. The rest is for temporary names that stores add. */
const MAX_NAME_BYTES = 200;
const HASH_DIGITS = 32;

const SAFE = /[A-Za-z0-9_.\-~]/;

/**
 * A resource id as one part of an object key: percent-encoded, so that it contains no slash and works as a file name. A long one is cut and
 * gets a hash, so that two ids never share a key.
 */
function keyPartOf(id: string): string {
  const encoded = encode(id);
  if (encoded.length <= MAX_NAME_BYTES) return encoded;
  const hash = createHash('sha256').update(id).digest('hex').slice(0, HASH_DIGITS);
  return `${encoded.slice(0, MAX_NAME_BYTES - HASH_DIGITS - 1).replace(/%.?$/, '')}~${hash}`;
}

/** Names of dots alone mean folders, and a tilde separates the hash of a long id. */
function encode(id: string): string {
  if (/^\.+$/.test(id)) return id.replaceAll('.', '%2E');
  let text = '';
  for (const character of id) {
    if (SAFE.test(character) && character !== '~') text += character;
    else for (const byte of Buffer.from(character)) text += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return text;
}

export const objectKeyOf = ({ keyPrefix, jobId, resourceId }: { keyPrefix: string; jobId: string; resourceId: string }): string =>
  `${keyPrefix}${jobId}/${keyPartOf(resourceId)}`;

/** Where the two objects of an ingest job lie. */
export const manifestKeysOf = (jobType: string, jobId: string): { readonly metadata: string; readonly manifest: string } => ({
  metadata: `manifests/${jobType}/${jobId}/metadata.json`,
  manifest: `manifests/${jobType}/${jobId}/manifest.json`,
});

export const manifestUri = ({ bucket, jobType, jobId }: { bucket: string; jobType: string; jobId: string }): string =>
  `s3://${bucket}/${manifestKeysOf(jobType, jobId).metadata}`;
