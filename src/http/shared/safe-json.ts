import { isUtf8 } from 'node:buffer';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import { nextTurn } from '../../core/turns.ts';
import { type PieceReader, parseInPieces, scanInTurns } from './json-pieces.ts';
import { JsonScan, MAX_DEPTH } from './json-scan.ts';

/** How many values a body may contain; a member of an object counts as three. It bounds the time of the parser and of the code that handles the values later. */
export type JsonLimits = {
  /** In the whole body. */
  readonly values: number;
  /** In one entry of a list that is a member of the body, and how many bytes it may have. Checked for large bodies only. */
  readonly entryValues: number;
  readonly entryBytes: number;
  /** Members of the body that are never written to the database, which refuses NUL and half surrogate pairs. Their texts may contain both. */
  readonly anyText?: ReadonlySet<string>;
};

/** Requests that a schema validates contain at most some thousand ids, so the validator finds a bounded number of errors. */
export const DEFAULT_JSON_LIMITS: JsonLimits = { values: 10_000, entryValues: 10_000, entryBytes: Number.POSITIVE_INFINITY };

/** Larger bodies are parsed in several turns of the event loop. */
const LARGE_BYTES = 262_144;

/**
 * Parses a JSON text or throws INVALID_REQUEST. It returns a promise only for a large text. An empty text is an absent body. `reserve` is
 * called with the number of values before they are created, and may throw.
 */
export function parseSafely(
  bytes: Buffer,
  limits: JsonLimits = DEFAULT_JSON_LIMITS,
  reserve: (values: number) => void = () => {},
): unknown | Promise<unknown> {
  if (bytes.length === 0) return undefined;
  if (bytes.length > LARGE_BYTES) return parseLarge(bytes, limits, reserve);
  const scan = new JsonScan(bytes);
  scan.advance(bytes.length);
  checkScan(bytes, scan, limits);
  reserve(scan.values);
  return readPiece(bytes.toString('utf8'), '', { scan, limits });
}

async function parseLarge(bytes: Buffer, limits: JsonLimits, reserve: (values: number) => void): Promise<unknown> {
  const scan = await scanInTurns(bytes);
  checkScan(bytes, scan, limits);
  reserve(scan.values);
  const pieceLimits = { bytes: limits.entryBytes, values: limits.entryValues };
  const value = await parseInPieces(bytes, { scan, limits: pieceLimits, reader: readerOf(scan, limits) });
  // The handler begins in a new turn.
  await nextTurn();
  return value;
}

function checkScan(bytes: Buffer, scan: JsonScan, { values }: JsonLimits): void {
  if (scan.isTooDeep) throw refuse('TOO_DEEP', `must not be nested more than ${MAX_DEPTH} levels deep`);
  if (scan.values > values || scan.hasManyEntries) throw tooMany(values);
  if (!isUtf8(bytes)) throw refuse('INVALID_TEXT', 'is not valid UTF-8');
}

const readerOf = (scan: JsonScan, limits: JsonLimits): PieceReader => ({
  read: (text, path) => readPiece(text, path, { scan, limits }),
  refuseLarge: (path) => refuse('PAYLOAD_TOO_LARGE', `must not be larger than ${limits.entryBytes} bytes`, path),
  refuseMany: (path) => tooMany(limits.entryValues, path),
});

type Piece = { readonly scan: JsonScan; readonly limits: JsonLimits };

function readPiece(text: string, path: string, { scan, limits: { anyText = NONE } }: Piece): unknown {
  const value = parse(text);
  if (isSuspicious(text, scan)) inspect(value, path, anyText);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refuse('INVALID_JSON', 'is not valid JSON');
  }
}

// Without a \u escape, a dangerous name appears literally in the text.
const isSuspicious = (text: string, { hasUnicodeEscape, hasGreatNumber }: JsonScan): boolean =>
  hasUnicodeEscape || hasGreatNumber || text.includes('__proto__') || text.includes('constructor');

const NONE: ReadonlySet<string> = new Set();

/** Walks a value whose text looks suspicious. Its depth is already limited. */
function inspect(value: unknown, path: string, anyText: ReadonlySet<string>): void {
  if (typeof value === 'string') inspectText(value, path, anyText);
  else if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw refuse('OUT_OF_RANGE', 'is too large: a number must fit a double', path);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) inspect(item, `${path}[${index}]`, anyText);
  } else if (typeof value === 'object' && value !== null) {
    for (const name of Object.keys(value)) inspectMember(value as Record<string, unknown>, name, { path, anyText });
  }
}

type Place = { readonly path: string; readonly anyText: ReadonlySet<string> };

function inspectMember(owner: Record<string, unknown>, name: string, { path, anyText }: Place): void {
  inspectText(name, path, anyText);
  const value = Object.getOwnPropertyDescriptor(owner, name)?.value;
  const isPoison =
    name === '__proto__' || (name === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype'));
  const below = path === '' ? name : `${path}.${name}`;
  if (isPoison) throw refuse('FORBIDDEN_MEMBER', 'is not an accepted name: rename the member', below);
  inspect(value, below, anyText);
}

function inspectText(text: string, path: string, anyText: ReadonlySet<string>): void {
  if (anyText.has(rootOf(path))) return;
  if (text.includes('\0')) throw refuse('INVALID_TEXT', 'must not contain a NUL character', path);
  if (!text.isWellFormed()) throw refuse('INVALID_TEXT', 'must not contain half of a surrogate pair', path);
}

/** The member of the body that the path leads through. */
const rootOf = (path: string): string => /^[^.[]*/.exec(path)?.[0] ?? '';

export function bodyTooLarge(limit: number): AppError {
  return refuse('PAYLOAD_TOO_LARGE', `must not be larger than ${limit} bytes`);
}

const tooMany = (values: number, path?: string): AppError =>
  refuse('TOO_MANY_VALUES', `must not contain more than ${values} values, where a member counts as three: send less in one request`, path);

export function refuse(code: string, what: string, path = ''): AppError {
  const field = path === '' ? 'body' : path.slice(0, 200);
  return invalidRequest({ field, code, message: `${field} ${what}` });
}
