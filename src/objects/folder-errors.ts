import { codeOf, ObjectStoreError, type ObjectStoreErrorCode } from './object-store-error.ts';

const CODES: ReadonlyMap<string, ObjectStoreErrorCode> = new Map([
  ['ENOSPC', 'STORE_FULL'],
  ['EDQUOT', 'STORE_FULL'],
  ['EFBIG', 'STORE_FULL'],
  ['EACCES', 'ACCESS_DENIED'],
  ['EPERM', 'ACCESS_DENIED'],
  ['EROFS', 'ACCESS_DENIED'],
]);

const MEANINGS: Readonly<Partial<Record<ObjectStoreErrorCode, string>>> = {
  STORE_FULL: 'the disk of the folder has no room left',
  ACCESS_DENIED: 'this user may not use the folder of objects',
};

/** Turns an error of the file system into one of the store. The body of an object does not pass here: its errors are its own. */
export async function onDisk<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw storeErrorOf(error);
  }
}

function storeErrorOf(error: unknown): unknown {
  const system = codeOf(error);
  if (system === null || error instanceof ObjectStoreError) return error;
  const code = CODES.get(system) ?? 'STORE_UNAVAILABLE';
  return new ObjectStoreError(code, `${MEANINGS[code] ?? 'the folder of objects cannot be used'} (${(error as Error).message})`);
}

/** Null if one of these is the reason, and other errors as they are. */
export async function unless<T>(codes: readonly string[], work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (codes.includes(codeOf(error) ?? '')) return null;
    throw error;
  }
}

/** No file lies there: the name is free, or a folder on the way is missing, a file, or a symbolic link. */
export const ABSENT: readonly string[] = ['ENOENT', 'ENOTDIR', 'ELOOP'];
