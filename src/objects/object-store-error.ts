/** Every code, with what to do about it. */
const REMEDIES = {
  BUCKET_MISSING: 'Create the bucket, or correct its name in the configuration.',
  ACCESS_DENIED: 'Check the credentials and what they may do with the bucket, or the owner and mode of the folder.',
  STORE_UNAVAILABLE: 'Check the address of the store and that it is running. Then try again.',
  STORE_FULL: 'Free some space, raise the quota, or move the store to a larger disk. Then try again.',
  INVALID_NAME: 'Use another bucket, key or name of metadata.',
  SIZE_MISMATCH: 'Send as many bytes as the size says, or leave the size out.',
  UPLOAD_LOST: 'Stop writing: another process continued this upload, or it was removed.',
} as const;

export type ObjectStoreErrorCode = keyof typeof REMEDIES;

/**
 * A store did not do what it was asked. Match it by `code`. It has no `cause`: errors of an S3 client refer to the request, with its
 * signature. The message has what people need of them.
 */
export class ObjectStoreError extends Error {
  readonly code: ObjectStoreErrorCode;

  constructor(code: ObjectStoreErrorCode, message: string) {
    super(`${message}. ${REMEDIES[code]}`);
    this.name = 'ObjectStoreError';
    this.code = code;
  }

  /** Whether the same call may succeed later without a change by the caller. */
  get isTemporary(): boolean {
    return this.code === 'STORE_UNAVAILABLE' || this.code === 'STORE_FULL';
  }
}

/** A length was promised and another one came. */
export function refuseSize(expected: number | undefined, actual: number): void {
  if (expected === undefined || expected === actual) return;
  throw new ObjectStoreError('SIZE_MISMATCH', `the object has ${actual} bytes and not ${expected}`);
}

/** The code of an error of the system, such as `ENOENT`. */
export function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}
