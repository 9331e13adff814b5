/**
 * Where the folder store keeps what it keeps, below `<root>/<bucket>/`:
 *
 *     a/b.jpg                       the bytes of the object `a/b.jpg`
 *     a/.%meta-b.jpg-<version>      its content type and metadata
 *     .%long/<2>/<hash>             objects whose key is too long for names of files, or whose place is taken by a folder or a file
 *     .%new/<id>                    bytes that are being written
 *     .%new/<id>.meta               the description of an object that is about to become visible
 *     .%uploads/<hash>/<owner>-<n>  an upload, with the number of bytes that are safe on disk
 *
 * A segment of a key becomes one name. `%` and control characters are percent-encoded, and so are `.` and `..`; an empty segment is
 * `%-`. A key that is percent-encoded itself, such as `a%2Fb`, stays as it is, so that people find it. No key becomes a name with `%` and
 * something else than two hexadecimal digits, so the other names cannot collide with keys.
 */
import { join } from 'node:path';
import { sha256 } from './object-names.ts';

const OWN_PREFIX = '.%';
const EMPTY = '%-';
/** Leaves room for `.%meta-` and the version in the 255 bytes that a name may have. */
const MAX_NAME_BYTES = 200;
/** Keeps a path below the 4096 bytes of the system, and the number of folders to create small. */
const MAX_PATH_BYTES = 2048;
const MAX_SEGMENTS = 64;

/** The file of an object: `folder` below the bucket, `name` in it. */
export interface Place {
  readonly folder: string;
  readonly name: string;
}

/** Null if names of files cannot carry the key. */
export function placeOf(key: string): Place | null {
  const segments = key.split('/').map(escapeSegment);
  if (segments.length > MAX_SEGMENTS) return null;
  if (segments.some((segment) => Buffer.byteLength(segment) > MAX_NAME_BYTES)) return null;
  if (Buffer.byteLength(segments.join('/')) > MAX_PATH_BYTES) return null;
  return { folder: segments.slice(0, -1).join('/'), name: segments.at(-1)! };
}

export const LONG_FOLDER = `${OWN_PREFIX}long`;
export const NEW_FOLDER = `${OWN_PREFIX}new`;
export const UPLOADS_FOLDER = `${OWN_PREFIX}uploads`;

export function longPlaceOf(key: string): Place {
  const hash = sha256(key);
  return { folder: join(LONG_FOLDER, hash.slice(0, 2)), name: hash };
}

export const sideName = (name: string, version: string): string => `${OWN_PREFIX}meta-${name}-${version}`;

/** What is escaped, unless it begins an escape of a key that no segment of this store becomes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what has to be escaped
const UNSAFE = /[\x00-\x1f\x7f]|%(?!(?:[2-6][0-9A-F]|7[0-9A-E]|[89A-F][0-9A-F])(?<!25))/g;
/** The escapes that this store makes. */
const MADE = /%(0[0-9A-F]|1[0-9A-F]|7F|25)/g;
const DOTS = /^(?:%2E){1,2}$/;

export function escapeSegment(segment: string): string {
  if (segment === '') return EMPTY;
  if (segment === '.' || segment === '..') return segment.replaceAll('.', '%2E');
  if (DOTS.test(segment)) return segment.replaceAll('%', '%25');
  return segment.replace(UNSAFE, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

/** Null for a name that no segment becomes: files of the store, and files that people named so. */
export function unescapeName(name: string): string | null {
  if (name === EMPTY) return '';
  const segment = DOTS.test(name)
    ? name.replaceAll('%2E', '.')
    : name.replace(MADE, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return escapeSegment(segment) === name ? segment : null;
}
