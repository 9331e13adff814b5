import { isUtf8 } from 'node:buffer';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { type AppError, invalidRequest } from '../../core/errors.ts';
import type { Http } from '../door.ts';
import { MAX_DEPTH, type Scan, scanJson } from './json-scan.ts';

const unzip = promisify(gunzip);

/** Accepts JSON bodies only, plain or gzipped. It rejects values that could harm the code that handles them later. */
export function installSafeJson(http: Http): void {
  http.removeAllContentTypeParsers();
  http.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.headers['content-encoding'] !== undefined) {
      decode(request, body).then((value) => done(null, value), done);
      return;
    }
    try {
      done(null, parseSafely(body));
    } catch (error) {
      done(error as Error);
    }
  });
}

async function decode(request: FastifyRequest, body: Buffer): Promise<unknown> {
  const encoding = request.headers['content-encoding']?.trim().toLowerCase();
  if (encoding === 'identity') return parseSafely(body);
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw refuse('UNSUPPORTED_ENCODING', 'must be sent plain or with one gzip encoding');
  }
  return parseSafely(await inflate(body, request.routeOptions.bodyLimit));
}

/** This form of gunzip counts its output and stops at the limit. A zlib stream ignores `maxOutputLength`. */
async function inflate(body: Buffer, limit: number): Promise<Buffer> {
  try {
    return await unzip(body, { maxOutputLength: limit });
  } catch (error) {
    const isTooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw isTooLarge ? bodyTooLarge(limit) : refuse('INVALID_ENCODING', 'is not a valid gzip');
  }
}

/** Parses a JSON text or throws INVALID_REQUEST. An empty text is an absent body. */
export function parseSafely(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  const scan = scanJson(bytes);
  if (scan.isTooDeep) throw refuse('TOO_DEEP', `must not be nested more than ${MAX_DEPTH} levels deep`);
  if (!isUtf8(bytes)) throw refuse('INVALID_TEXT', 'is not valid UTF-8');
  const text = bytes.toString('utf8');
  const value = parse(text);
  if (isSuspicious(text, scan)) inspect(value, '');
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
const isSuspicious = (text: string, { hasUnicodeEscape, hasGreatNumber }: Scan): boolean =>
  hasUnicodeEscape || hasGreatNumber || text.includes('__proto__') || text.includes('constructor');

/** Walks a value whose text looks suspicious. Its depth is already limited. */
function inspect(value: unknown, path: string): void {
  if (typeof value === 'string') inspectText(value, path);
  else if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw refuse('OUT_OF_RANGE', 'is too large: a number must fit a double', path);
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) inspect(item, `${path}[${index}]`);
  } else if (typeof value === 'object' && value !== null) {
    for (const name of Object.keys(value)) inspectMember(value as Record<string, unknown>, name, path);
  }
}

function inspectMember(owner: Record<string, unknown>, name: string, path: string): void {
  inspectText(name, path);
  const value = Object.getOwnPropertyDescriptor(owner, name)?.value;
  const isPoison =
    name === '__proto__' || (name === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype'));
  const below = path === '' ? name : `${path}.${name}`;
  if (isPoison) throw refuse('FORBIDDEN_MEMBER', 'is not an accepted name: rename the member', below);
  inspect(value, below);
}

function inspectText(text: string, path: string): void {
  if (text.includes('\0')) throw refuse('INVALID_TEXT', 'must not contain a NUL character', path);
  if (!text.isWellFormed()) throw refuse('INVALID_TEXT', 'must not contain half of a surrogate pair', path);
}

export function bodyTooLarge(limit: number): AppError {
  return refuse('PAYLOAD_TOO_LARGE', `must not be larger than ${limit} bytes`);
}

function refuse(code: string, what: string, path = ''): AppError {
  const field = path === '' ? 'body' : path.slice(0, 200);
  return invalidRequest({ field, code, message: `${field} ${what}` });
}
