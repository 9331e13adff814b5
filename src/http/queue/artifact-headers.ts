import type { IncomingHttpHeaders } from 'node:http';
import { checkContentType, DEFAULT_CONTENT_TYPE, problemOfName, readChecksum } from '../../core/artifact.ts';
import { type Issue, invalidRequest } from '../../core/errors.ts';

const DEFAULT_NAME = 'artifact';
const EXTENDED = /^utf-8''(.*)$/i;
const CHECKSUM = 'X-Checksum-Sha256';

/** What the headers of an upload say about the file. */
export function readUploadHeaders(headers: IncomingHttpHeaders) {
  refuseEncoding(headers['content-encoding']);
  const purpose = headers['x-artifact-purpose'] === 'import' ? ('import' as const) : null;
  const checksum = textOf(headers['x-checksum-sha256']);
  if (checksum === undefined && purpose === 'import') {
    const message = `${CHECKSUM} is required for the input of an import. Send the SHA-256 checksum of the file in hexadecimal digits.`;
    throw invalidRequest({ field: CHECKSUM, code: 'REQUIRED', message });
  }
  const name = nameOf(textOf(headers['x-artifact-name']));
  const contentType = headers['content-type'] ?? DEFAULT_CONTENT_TYPE;
  refuseHeaders(inHeader('X-Artifact-Name', problemOfName(name)), inHeader('Content-Type', checkContentType(contentType)));
  return {
    name,
    contentType,
    purpose,
    expected: checksum === undefined ? undefined : { sha256: readChecksum(checksum.trim(), CHECKSUM), field: CHECKSUM },
  };
}

const THING = /^The (?:name of an artifact|content type)/;

/** The caller sent the value as a header, so the issue has the name of the header. */
const inHeader = (field: string, issue: Issue | null): Issue | null =>
  issue && { ...issue, field, message: issue.message.replace(THING, field) };

function refuseHeaders(...found: readonly (Issue | null)[]): void {
  const issues = found.filter((issue) => issue !== null);
  if (issues.length > 0) throw invalidRequest(...issues);
}

const textOf = (header: string | string[] | undefined): string | undefined => (Array.isArray(header) ? header.join(', ') : header);

/** Node reads headers as Latin-1. Most clients send UTF-8. */
function nameOf(header: string | undefined): string {
  if (header === undefined) return DEFAULT_NAME;
  const extended = EXTENDED.exec(header)?.[1];
  if (extended !== undefined) {
    try {
      return decodeURIComponent(extended);
    } catch {
      throw invalidRequest({
        field: 'X-Artifact-Name',
        code: 'INVALID_VALUE',
        message: 'X-Artifact-Name is not valid percent-encoded UTF-8.',
      });
    }
  }
  const utf8 = Buffer.from(header, 'latin1').toString('utf8');
  return utf8.includes('�') ? header : utf8;
}

function refuseEncoding(encoding: string | undefined): void {
  if (encoding === undefined || encoding.trim().toLowerCase() === 'identity') return;
  const message =
    'An artifact is stored as it is sent. Leave Content-Encoding out; for a compressed file, send Content-Type: application/gzip.';
  throw invalidRequest({ field: 'Content-Encoding', code: 'UNSUPPORTED_ENCODING', message });
}

/** The header that makes browsers save a file, with a name that cannot leave the header or name a folder. */
export function attachmentHeader(name: string): string {
  const plain = name.replace(/[/\\]/g, '_');
  const ascii = plain.replace(/[^\x20-\x7e]|["%]/g, '_');
  const encoded = encodeURIComponent(plain).replace(/['()*!]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`;
}

export type RangeChoice =
  | { readonly kind: 'whole' }
  | { readonly kind: 'part'; readonly start: number; readonly end: number }
  | { readonly kind: 'none' };

const WHOLE: RangeChoice = { kind: 'whole' };

/** Reads a Range header (RFC 9110). Several ranges and units other than bytes are ignored, as the standard allows. `none`: no byte of it exists. */
export function chooseRange(header: string | undefined, size: number): RangeChoice {
  const match = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/i.exec(header ?? '');
  if (match === null) return WHOLE;
  const [first, last] = [match[1] ?? '', match[2] ?? ''];
  if (first === '' && last === '') return WHOLE;
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? { kind: 'none' } : { kind: 'part', start: size - length, end: size - 1 };
  }
  const start = Number(first);
  if (last !== '' && Number(last) < start) return WHOLE;
  if (start >= size) return { kind: 'none' };
  return { kind: 'part', start, end: last === '' ? size - 1 : Math.min(Number(last), size - 1) };
}

/** Whether an If-None-Match header names the tag. A weak tag of the same bytes counts. */
export const matchesTag = (header: string | undefined, tag: string): boolean =>
  header !== undefined && (header.trim() === '*' || header.split(',').some((each) => each.trim().replace(/^W\//, '') === tag));
