import type { Issue } from './errors.ts';
import { findNotPlain, isPlainJson, isPlainObject } from './plain-json.ts';

export type Payload = { readonly kind: 'json'; readonly text: string } | { readonly kind: 'bytes'; readonly bytes: Uint8Array };

/** An estimate of the size in bytes: the exact size of a text would need a scan. */
export const lengthOf = (payload: Payload): number => (payload.kind === 'json' ? payload.text.length : payload.bytes.byteLength);

export type EncodedPayload = { readonly ok: true; readonly payload: Payload } | { readonly ok: false; readonly issue: Issue };

export interface EncodeParams {
  readonly maxBytes: number;
  readonly field: string;
}

const MEBIBYTE = 1_048_576;
export const DEFAULT_MAX_PAYLOAD_BYTES = MEBIBYTE;
export const HIGHEST_MAX_PAYLOAD_BYTES = 16 * MEBIBYTE;
export const DEFAULT_MAX_RESULT_BYTES = MEBIBYTE;
export const MAX_CHECKPOINT_BYTES = MEBIBYTE;

// The length is checked separately: an expression with groups of four takes twenty times as long.
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
// JSON.stringify writes NUL and lone surrogates as escapes. After an even number of backslashes they are escapes, not text.
const UNSTORABLE_ESCAPE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/;

export function checkPayloadLimit(maxBytes: number, field = 'maxPayloadBytes'): Issue | null {
  if (Number.isInteger(maxBytes) && maxBytes >= 1 && maxBytes <= HIGHEST_MAX_PAYLOAD_BYTES) return null;
  return { field, code: 'OUT_OF_RANGE', message: `${field} must be between 1 byte and 16 MB` };
}

/** Encodes a job's input: a plain object, bytes, or bytes in JSON as `{ "$bytes": "<base64>" }`. */
export function encodePayload(value: unknown, { maxBytes, field }: EncodeParams): EncodedPayload {
  const limitIssue = maxBytes > HIGHEST_MAX_PAYLOAD_BYTES ? checkPayloadLimit(maxBytes) : null;
  if (limitIssue) return { ok: false, issue: limitIssue };
  if (value === undefined || value === null) return refuse(field, 'REQUIRED', `${field} is required`);
  if (value instanceof Uint8Array) return bytesPayload(new Uint8Array(value), { maxBytes, field });
  if (typeof value !== 'object' || Array.isArray(value)) return refuse(field, 'INVALID_TYPE', `${field} must be a plain object or bytes`);
  if (!isPlainObject(value)) return refuse(field, 'INVALID_TYPE', notPlain(value, field).message);
  return encodeJson(value, { maxBytes, field });
}

/** Encodes a handler's result, which is a plain JSON value or bytes. A handler that returns nothing has the result null. */
export function encodeOutput(value: unknown, maxBytes = DEFAULT_MAX_RESULT_BYTES): EncodedPayload {
  if (value === undefined || value === null) return { ok: true, payload: { kind: 'json', text: 'null' } };
  const params = { maxBytes, field: 'result' };
  if (value instanceof Uint8Array) return bytesPayload(new Uint8Array(value), params);
  return encodeJson(value, params);
}

export function decodePayload(payload: Payload): unknown {
  return payload.kind === 'json' ? JSON.parse(payload.text) : payload.bytes;
}

/** Encodes the state of a checkpoint, which is a plain JSON value. Returns its text. */
export function encodeState(value: unknown): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly issue: Issue } {
  const text = plainText(value);
  return text === undefined ? { ok: false, issue: notPlain(value, 'checkpoint', false) } : { ok: true, text };
}

function encodeJson(value: unknown, params: EncodeParams): EncodedPayload {
  const { maxBytes, field } = params;
  if (typeof value === 'object' && value !== null && '$bytes' in value && Object.keys(value).length === 1) {
    return decodeBase64(value.$bytes, params);
  }
  const text = plainText(value);
  if (text === undefined || (text.includes('\\u') && UNSTORABLE_ESCAPE.test(text))) return { ok: false, issue: notPlain(value, field) };
  // A UTF-16 unit takes at most three bytes, so short texts need no exact count.
  if (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes) return tooLarge(params);
  return { ok: true, payload: { kind: 'json', text } };
}

/** The JSON text of a value that JSON brings back as it is; undefined for any other. */
function plainText(value: unknown): string | undefined {
  try {
    const text = JSON.stringify(value);
    return isPlainJson(value) ? text : undefined;
  } catch {
    // The value contains itself or a BigInt, or is too deep.
    return undefined;
  }
}

/** The issue of a value that JSON does not bring back, or that is too deep to be written. */
function notPlain(value: unknown, field: string, isText = true): Issue {
  try {
    const found = findNotPlain(value, { field, isText });
    if (found !== null) return found;
  } catch {
    // Too deep, or a member that throws when it is read.
  }
  return { field, code: 'NOT_SERIALIZABLE', message: `${field} cannot be written as JSON; pass plain data with fewer levels` };
}

function decodeBase64(encoded: unknown, params: EncodeParams): EncodedPayload {
  if (typeof encoded !== 'string') return refuse(`${params.field}.$bytes`, 'INVALID_TYPE', '$bytes must be a base64 string');
  if (encoded.length > Math.ceil(params.maxBytes / 3) * 4) return tooLarge(params);
  if (encoded.length % 4 !== 0 || !BASE64.test(encoded))
    return refuse(`${params.field}.$bytes`, 'INVALID_BASE64', '$bytes must be valid base64');
  return bytesPayload(new Uint8Array(Buffer.from(encoded, 'base64')), params);
}

function bytesPayload(bytes: Uint8Array, params: EncodeParams): EncodedPayload {
  if (bytes.byteLength > params.maxBytes) return tooLarge(params);
  return { ok: true, payload: { kind: 'bytes', bytes } };
}

export const isTooLarge = ({ code }: Issue): boolean => code === 'PAYLOAD_TOO_LARGE';

function tooLarge({ field, maxBytes }: EncodeParams): EncodedPayload {
  return refuse(field, 'PAYLOAD_TOO_LARGE', `${field} is larger than ${maxBytes} bytes`);
}

function refuse(field: string, code: string, message: string): EncodedPayload {
  return { ok: false, issue: { field, code, message } };
}
