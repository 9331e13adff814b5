import { boundText } from '../core/bounded-text.ts';
import type { AttemptOutcome } from '../core/delivery-policy.ts';
import { maskSecrets } from '../core/mask-secrets.ts';

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
  const clean = maskSecrets(text).replaceAll(CONTROL, ' ').trim();
  return clean === '' ? null : boundText(clean, STORED_BYTES);
}
