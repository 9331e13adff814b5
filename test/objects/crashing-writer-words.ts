import { bytesOf, MB } from './bytes.ts';

export const BUCKET = 'conformance';
export const KEY = 'folder/object';
export const UPLOAD_ID = 'upload';
export const OLD_BYTES = Buffer.from('the object that was there before');
export const OLD_METADATA = new Map([['version', 'old']]);
export const NEW_BYTES = bytesOf(9 * MB + 3);
export const NEW_METADATA = new Map([['version', 'new']]);
/** Written with one call each at the same moment, as one batch. The first replaces an object. */
export const TOGETHER = [KEY, 'folder/second', 'third'];
