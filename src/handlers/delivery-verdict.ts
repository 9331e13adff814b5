import { boundText } from '../core/bounded-text.ts';
import type { AttemptOutcome } from '../core/delivery-policy.ts';
import { isSecretName, MASKED } from '../core/secret-names.ts';

/** The result of a request. */
export type DeliveryAnswer =
  | {
      readonly kind: 'answered';
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: Uint8Array;
      readonly durationMs: number;
    }
  | { readonly kind: 'refused'; readonly code: string; readonly durationMs: number }
  | { readonly kind: 'failed'; readonly code: string; readonly durationMs: number };

const GONE = 410;
const ANSWER_BYTES = 1_024;
const STORED_BYTES = 2_048;
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Only a 2xx status is a success. Redirects are not followed. */
export function judgeAnswer(answer: DeliveryAnswer, nowMs: number): AttemptOutcome {
  const { durationMs } = answer;
  const noResponse = { status: null, durationMs, answer: null, retryAfterMs: null };
  if (answer.kind === 'refused') return { ...noResponse, verdict: 'failed', errorCode: `REFUSED_${answer.code}` };
  if (answer.kind === 'failed') return { ...noResponse, verdict: 'retry', errorCode: answer.code };
  const { status } = answer;
  const response = { status, durationMs, answer: excerptOf(answer.body), retryAfterMs: null };
  if (status >= 200 && status < 300) return { ...response, verdict: 'delivered', errorCode: null };
  const errorCode = `HTTP_${status}`;
  if (status === GONE) return { ...response, verdict: 'gone', errorCode };
  const retryAfterMs = readRetryAfter(answer.headers['retry-after'], nowMs + durationMs);
  return { ...response, verdict: 'retry', errorCode, retryAfterMs };
}

/** Accepts seconds or a date, up to one hour. Returns null for anything else. */
function readRetryAfter(text: string | undefined, nowMs: number): number | null {
  if (text === undefined) return null;
  const trimmed = text.trim();
  const ms = /^\d{1,10}$/.test(trimmed) ? Number(trimmed) * 1_000 : dateOf(trimmed) - nowMs;
  if (Number.isNaN(ms)) return null;
  return Math.min(MAX_RETRY_AFTER_MS, Math.max(0, Math.round(ms)));
}

const dateOf = (text: string): number => (/^[A-Z][a-z]+,? /.test(text) ? Date.parse(text) : Number.NaN);

const CONTROL = /\p{Cc}+/gu;

/** The part of a response that may be stored, or null when it is empty. */
function excerptOf(body: Uint8Array): string | null {
  const text = new TextDecoder().decode(body.subarray(0, ANSWER_BYTES));
  const clean = maskAnswer(text).replaceAll(CONTROL, ' ').trim();
  return clean === '' ? null : boundText(clean, STORED_BYTES);
}

// A name, perhaps quoted, with its colon or equals sign; and a value that is a string, perhaps cut off, or plain text.
const NAME = /([\w.-]+)\\*["']?\s*[:=]\s*/g;
const VALUE = /"(?:[^"\\]|\\.)*"?|[^,;&}\r\n]+/y;

/** Secrets that are recognizable by their form: ours, those of common authentication schemes, and JSON Web Tokens. */
const FORMS = /\bwhsec_[\w+/=-]+|\bmr_[\w-]{8,}|\b(?:Bearer|Basic|Digest|Negotiate)\s+[^\s"',;<>]{8,}|\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?/gi;

const CLOSING: ReadonlyMap<string, string> = new Map([
  ['{', '}'],
  ['[', ']'],
]);

/** Masks the values of secret-sounding names in JSON, forms and headers, and everything that looks like a secret. */
function maskAnswer(text: string): string {
  return maskNamed(text).replaceAll(FORMS, MASKED);
}

function maskNamed(text: string): string {
  let masked = '';
  let from = 0;
  for (const { 0: all, 1: name = '', index } of text.matchAll(NAME)) {
    if (index < from || !isSecretName(name)) continue;
    const start = index + all.length;
    const end = endOfValue(text, start);
    if (end === start) continue;
    masked += text.slice(from, start) + MASKED;
    from = end;
  }
  return masked + text.slice(from);
}

function endOfValue(text: string, start: number): number {
  if (CLOSING.has(text[start] ?? '')) return endOfGroup(text, start);
  VALUE.lastIndex = start;
  return VALUE.exec(text) === null ? start : VALUE.lastIndex;
}

/** The position after the matching bracket, or the end of the text. Brackets within strings do not count. */
function endOfGroup(text: string, start: number): number {
  const open: string[] = [];
  for (let at = start; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '\\') at++;
    else if (character === '"') at = endOfString(text, at);
    else if (CLOSING.has(character)) open.push(CLOSING.get(character) as string);
    else if (character === open.at(-1)) {
      open.pop();
      if (open.length === 0) return at + 1;
    }
  }
  return text.length;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at;
  }
  return text.length;
}
