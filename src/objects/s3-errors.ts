import { codeOf, ObjectStoreError, type ObjectStoreErrorCode } from './object-store-error.ts';

/** By the code that the service sends. */
const CODES: ReadonlyMap<string, ObjectStoreErrorCode> = new Map([
  ['NoSuchBucket', 'BUCKET_MISSING'],
  ['AccessDenied', 'ACCESS_DENIED'],
  ['InvalidAccessKeyId', 'ACCESS_DENIED'],
  ['SignatureDoesNotMatch', 'ACCESS_DENIED'],
  ['RequestTimeTooSkewed', 'ACCESS_DENIED'],
  ['ExpiredToken', 'ACCESS_DENIED'],
  ['InsufficientStorage', 'STORE_FULL'],
  ['QuotaExceeded', 'STORE_FULL'],
  ['XMinioStorageFull', 'STORE_FULL'],
  ['InvalidBucketName', 'INVALID_NAME'],
  ['InvalidURI', 'INVALID_NAME'],
  ['KeyTooLongError', 'INVALID_NAME'],
  ['KeyTooLong', 'INVALID_NAME'],
  ['MetadataTooLarge', 'INVALID_NAME'],
  ['XMinioInvalidObjectName', 'INVALID_NAME'],
]);

/** A response to HEAD has no body, and so no code. */
const STATUSES: ReadonlyMap<number, ObjectStoreErrorCode> = new Map([
  [401, 'ACCESS_DENIED'],
  [403, 'ACCESS_DENIED'],
  [413, 'STORE_FULL'],
  [507, 'STORE_FULL'],
]);

const MEANINGS: Readonly<Partial<Record<ObjectStoreErrorCode, string>>> = {
  BUCKET_MISSING: 'the bucket does not exist',
  ACCESS_DENIED: 'the store refuses the credentials',
  STORE_FULL: 'the store has no room left',
  INVALID_NAME: 'the store refuses the name',
};

export function statusOf(error: unknown): number | undefined {
  const metadata = error instanceof Error && '$metadata' in error ? (error.$metadata as { httpStatusCode?: number }) : undefined;
  return metadata?.httpStatusCode;
}

export const isMissing = (error: unknown): boolean => statusOf(error) === 404 && (error as Error).name !== 'NoSuchBucket';

/** Turns an error of the client into one of the store. An abort by the caller stays what the caller gave as its reason. */
export async function onS3<T>(work: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work;
  } catch (error) {
    signal?.throwIfAborted();
    throw storeErrorOf(error);
  }
}

/** Null if there is no such object. */
export async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (isMissing(error)) return null;
    throw storeErrorOf(error);
  }
}

function storeErrorOf(error: unknown): ObjectStoreError {
  if (error instanceof ObjectStoreError) return error;
  const name = error instanceof Error ? error.name : 'unknown error';
  const status = statusOf(error);
  const code = CODES.get(name) ?? STATUSES.get(status ?? 0) ?? 'STORE_UNAVAILABLE';
  // Only words of the protocol: texts of services repeat parts of the request.
  const detail = status === undefined ? (codeOf(error) ?? name) : `${name}, status ${status}`;
  const meaning = status === 301 || status === 307 ? 'the bucket is in another region' : MEANINGS[code];
  return new ObjectStoreError(code, `${meaning ?? 'the store cannot be reached or does not work'} (${detail})`);
}
