import { specialRangeOf } from '../core/address-policy.ts';
import { parseDuration } from '../core/duration.ts';
import { headerProblem } from '../core/ingest/manifest.ts';
import { parseIp, parseRange } from '../core/ip-address.ts';
import { Issues } from '../core/issues.ts';
import { type JobLimit, readLimit } from '../core/limit.ts';

/** The type of a setting. Durations are read as milliseconds, sizes as bytes. */
export type Kind =
  | { readonly type: 'text'; readonly choices?: readonly string[]; readonly minLength?: number; readonly form?: TextForm }
  /** A map of HTTP headers. */
  | { readonly type: 'headers' }
  /** A table of any content. */
  | { readonly type: 'object' }
  | { readonly type: 'integer'; readonly min: number; readonly max?: number }
  | { readonly type: 'number'; readonly above?: number; readonly min?: number; readonly max: number }
  | { readonly type: 'boolean' }
  | { readonly type: 'limit' }
  | { readonly type: 'proxies' }
  | { readonly type: 'duration'; readonly minMs?: number; readonly maxMs?: number }
  | { readonly type: 'size'; readonly maxBytes: number }
  | {
      readonly type: 'list';
      readonly choices?: readonly string[];
      readonly of?: Form;
      /** An empty list would silently disable the feature. */
      readonly needsOne?: true;
    };

type Form = 'range' | 'local endpoint' | 'host name' | 'proxy';
type TextForm = 'bucket' | 'key prefix' | 'web address';

export type Value = string | number | boolean | readonly string[];

export type Read = { readonly ok: true; readonly value: Value } | { readonly ok: false; readonly message: string };

const UNITS = { B: 1, KB: 1_024, MB: 1_048_576, GB: 1_073_741_824 } as const;
const SIZE = /^(\d+(?:\.\d+)?)\s*(B|KB|MB|GB)$/i;

/** Reads a value from a file. */
export function readValue(given: unknown, kind: Kind): Read {
  switch (kind.type) {
    case 'text':
      return readText(given, kind);
    case 'integer':
      return readInteger(given, kind);
    case 'number':
      return readNumber(given, kind);
    case 'headers':
    case 'object':
      return readTable(given, kind);
    case 'limit':
      return readLimitText(given);
    case 'boolean':
      return typeof given === 'boolean' ? accept(given) : refuse('must be true or false');
    case 'proxies':
      return readProxies(given);
    case 'duration':
      return readDuration(given, kind);
    case 'size':
      return readSize(given, kind);
    case 'list':
      return readList(given, kind);
  }
}

/** Reads a text from the environment or the command line, which have no types. */
export function readEnvironmentValue(text: string, kind: Kind): Read {
  const trimmed = text.trim();
  if (kind.type === 'integer' || kind.type === 'number') {
    return readValue(trimmed === '' ? trimmed : Number(trimmed), kind);
  }
  if (kind.type === 'boolean') {
    return readValue(/^(true|1)$/i.test(trimmed) || (/^(false|0)$/i.test(trimmed) ? false : trimmed), kind);
  }
  if (kind.type === 'proxies' && /^(?:true|false)$/i.test(trimmed)) return readProxies(trimmed.toLowerCase() === 'true');
  if (kind.type === 'proxies' && /^\d+$/.test(trimmed)) return readProxies(Number(trimmed));
  if (kind.type === 'list' || kind.type === 'proxies') {
    const parts = trimmed.split(',').map((part) => part.trim());
    return readValue(parts.filter(Boolean), kind);
  }
  if (kind.type === 'duration' && /^\d+$/.test(trimmed)) return readValue(Number(trimmed), kind);
  return readValue(trimmed, kind);
}

function readText(
  given: unknown,
  { choices, minLength = 1, form }: { choices?: readonly string[]; minLength?: number; form?: TextForm },
): Read {
  if (typeof given !== 'string' || given === '') return refuse('must be a non-empty string');
  if (given.length < minLength) return refuse(`must have at least ${minLength} characters`);
  if (form !== undefined && !TEXT_FORMS[form].fits(given)) return refuse(`must be ${TEXT_FORMS[form].name}`);
  if (choices === undefined || choices.includes(given)) return accept(given);
  return refuse(`must be one of ${choices.map((choice) => `"${choice}"`).join(', ')}`);
}

function readInteger(given: unknown, { min, max = Number.MAX_SAFE_INTEGER }: { min: number; max?: number }): Read {
  const value = typeof given === 'bigint' ? Number(given) : given;
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return accept(value);
  return refuse(
    max === Number.MAX_SAFE_INTEGER ? `must be a whole number of at least ${min}` : `must be a whole number from ${min} to ${max}`,
  );
}

function readNumber(given: unknown, { above, min = 0, max }: { above?: number; min?: number; max: number }): Read {
  const value = typeof given === 'bigint' ? Number(given) : given;
  const isEnough = typeof value === 'number' && (above === undefined ? value >= min : value > above);
  if (isEnough && value <= max) return accept(value);
  return refuse(
    above === undefined ? `must be a number from ${min} to ${max}` : `must be a number greater than ${above} and at most ${max}`,
  );
}

const MAX_PROXIES = 100;

/** Zero proxies are none. With `true` a caller could choose his own address: the leftmost one that the headers name. */
function readProxies(given: unknown): Read {
  if (given === false || given === 0 || given === 0n) return accept(false);
  if (Array.isArray(given)) return readList(given, { of: 'range', needsOne: true });
  const read = readInteger(given, { min: 1, max: MAX_PROXIES });
  if (read.ok) return read;
  const ways = `false, the number of proxies from 1 to ${MAX_PROXIES}, or a list of their addresses such as ["10.0.0.0/8"]`;
  return refuse(given === true ? `cannot be true, because callers could forge their address: write ${ways}` : `must be ${ways}`);
}

function readDuration(given: unknown, { minMs = 1, maxMs = Number.MAX_SAFE_INTEGER }: { minMs?: number; maxMs?: number }): Read {
  if (typeof given !== 'string' && typeof given !== 'number') return refuse('must be a duration such as "30s", "5m" or "PT1H"');
  const parsed = parseDuration(given);
  if (!parsed.ok) return refuse(`is not valid: ${parsed.message}`);
  if (parsed.ms >= minMs && parsed.ms <= maxMs) return accept(parsed.ms);
  return refuse(parsed.ms < minMs ? `must be at least ${showDuration(minMs)}` : `must be at most ${showDuration(maxMs)}`);
}

function readSize(given: unknown, { maxBytes }: { maxBytes: number }): Read {
  const parts = typeof given === 'string' ? SIZE.exec(given.trim()) : null;
  if (parts === null) return refuse('must be a size with a unit, such as "256KB" or "1MB"');
  const bytes = Number(parts[1]) * UNITS[parts[2]?.toUpperCase() as keyof typeof UNITS];
  if (Number.isInteger(bytes) && bytes >= 1 && bytes <= maxBytes) return accept(bytes);
  return refuse(`must be from 1B to ${showSize(maxBytes)}`);
}

function readList(given: unknown, { choices, of, needsOne }: { choices?: readonly string[]; of?: Form; needsOne?: true }): Read {
  if (!Array.isArray(given) || !given.every((item) => typeof item === 'string' && item !== '')) return refuse('must be a list of strings');
  if (needsOne && given.length === 0) return refuse('must have at least one item');
  const wrong = of === undefined ? undefined : given.find((item) => !FORMS[of].fits(item));
  if (of !== undefined && wrong !== undefined)
    return refuse(`must be a list of ${FORMS[of].name}${of === 'proxy' ? '' : `, but "${wrong}" is not one`}`);
  if (choices === undefined) return accept(Object.freeze([...given]));
  if (given.length > 0 && given.every((item) => choices.includes(item))) return accept(Object.freeze([...new Set<string>(given)]));
  return refuse(`must be a list of at least one of ${choices.map((choice) => `"${choice}"`).join(', ')}`);
}

const TEXT_FORMS = {
  bucket: {
    name: 'the name of a bucket: 3 to 63 lower-case letters, digits, dots and dashes',
    fits: (text: string) => /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text) && !text.includes('..'),
  },
  'key prefix': {
    name: 'the beginning of object keys such as "gallery/", without a slash at the start and without "." and ".." as a part',
    fits: (text: string) => Buffer.byteLength(text) <= 500 && !/^\/|(?:^|\/)\.{1,2}(?:\/|$)|\/\/|\p{Cc}/u.test(text),
  },
  'web address': {
    name: 'a web address such as "http://127.0.0.1:4318"',
    fits: (text: string) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol),
  },
} as const;

const FORMS = {
  proxy: {
    name: 'addresses of proxies such as "http://user:secret@proxy.example.com:3128" or "socks5://proxy.example.com:1080"',
    fits: (text: string) => URL.canParse(text) && /^(?:http|socks5):$/.test(new URL(text).protocol),
  },
  range: {
    name: 'addresses or ranges such as "10.1.0.0/16" or "::1"',
    fits: (text: string) => parseRange(text) !== null,
  },
  'host name': { name: 'host names such as "jobs.example.com", without a port', fits: isHostName },
  'local endpoint': { name: 'loopback endpoints such as "127.0.0.1:9000" or "[::1]:9000"', fits: isLocalEndpoint },
} as const;

const ENDPOINT = /^(?:\[([0-9a-f:]+)\]|([0-9.]+)):([1-9]\d{0,4})$/i;

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/i;

/** "*" stands for every name. */
function isHostName(text: string): boolean {
  return text === '*' || HOST_NAME.test(text);
}

function isLocalEndpoint(text: string): boolean {
  const [, v6, v4, port] = ENDPOINT.exec(text) ?? [];
  const address = parseIp(v6 ?? v4 ?? '');
  return address !== null && specialRangeOf(address) === 'loopback' && Number(port) <= 65_535;
}

/** Formats a value as a file would write it. */
export function showValue(value: Value | null, kind: Kind): string {
  if (value === null) return '(not set)';
  if (kind.type === 'duration') return `"${showDuration(value as number)}"`;
  if (kind.type === 'size') return `"${showSize(value as number)}"`;
  if (kind.type === 'headers' || kind.type === 'object') return value as string;
  if (kind.type === 'limit' && value !== NO_LIMIT) return showLimit(JSON.parse(value as string));
  return JSON.stringify(value);
}

function showLimit({ key, concurrency, rate, perMs }: JobLimit): string {
  const members = [
    `key = ${JSON.stringify(key)}`,
    ...(concurrency === null ? [] : [`concurrency = ${concurrency}`]),
    ...(rate === null || perMs === null ? [] : [`rate = ${rate}`, `per = "${showDuration(perMs)}"`]),
  ];
  return `{ ${members.join(', ')} }`;
}

const SHOWN_UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

export function showDuration(ms: number): string {
  for (const [unit, length] of SHOWN_UNITS) if (ms >= length && ms % length === 0) return `${ms / length}${unit}`;
  return `${ms}ms`;
}

function showSize(bytes: number): string {
  for (const unit of ['GB', 'MB', 'KB'] as const) if (bytes % UNITS[unit] === 0) return `${bytes / UNITS[unit]}${unit}`;
  return `${bytes}B`;
}

const accept = (value: Value): Read => ({ ok: true, value });
const refuse = (message: string): Read => ({ ok: false, message });

/** Stands for the removal of a limit. */
export const NO_LIMIT = 'none';

/** A limit is kept as JSON text, so that it can be shown like any other value. */
function readLimitText(given: unknown): Read {
  if (given === NO_LIMIT) return { ok: true, value: NO_LIMIT };
  const issues = new Issues();
  const limit = readLimit(given, issues, { isTemplate: true });
  if (limit !== null) return { ok: true, value: JSON.stringify(limit) };
  return { ok: false, message: `is not valid: ${issues.list.map(({ message }) => message).join('; ')}` };
}

/** A table is kept as JSON text, so that it can be shown like any other value. */
function readTable(given: unknown, { type }: { type: 'headers' | 'object' }): Read {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return refuse('must be a table');
  for (const [name, value] of type === 'headers' ? Object.entries(given) : []) {
    if (typeof value !== 'string') return refuse(`must be a table of strings, but ${name} is not one`);
    const problem = headerProblem(name, value);
    if (problem !== null) return refuse(`is not valid: ${name} ${problem.message}`);
  }
  return accept(JSON.stringify(given));
}
