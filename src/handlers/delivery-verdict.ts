import { boundText } from '../core/bounded-text.ts';
import { maskAnswer } from './mask-answer.ts';

/** What became of a request. */
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

export type Judgement = {
  /** `failed`: for good. `gone`: and the endpoint asks to be left alone. */
  readonly verdict: 'delivered' | 'retry' | 'failed' | 'gone';
  readonly status: number | null;
  readonly errorCode: string | null;
  readonly durationMs: number;
  /** The beginning of what the endpoint said, without control characters and secrets. */
  readonly answer: string | null;
  readonly retryAfterMs: number | null;
};

const GONE = 410;
const ANSWER_BYTES = 1_024;
const STORED_BYTES = 2_048;
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Success is 2xx and nothing else: a redirect is an answer like any other, and is not followed. */
export function judgeAnswer(answer: DeliveryAnswer, nowMs: number): Judgement {
  const { durationMs } = answer;
  const silent = { status: null, durationMs, answer: null, retryAfterMs: null };
  if (answer.kind === 'refused') return { ...silent, verdict: 'failed', errorCode: `REFUSED_${answer.code}` };
  if (answer.kind === 'failed') return { ...silent, verdict: 'retry', errorCode: answer.code };
  const { status } = answer;
  const said = { status, durationMs, answer: excerptOf(answer.body), retryAfterMs: null };
  if (status >= 200 && status < 300) return { ...said, verdict: 'delivered', errorCode: null };
  const errorCode = `HTTP_${status}`;
  if (status === GONE) return { ...said, verdict: 'gone', errorCode };
  const retryAfterMs = readRetryAfter(answer.headers['retry-after'], nowMs + durationMs);
  return { ...said, verdict: 'retry', errorCode, retryAfterMs };
}

/** Seconds or a date; an hour at most. Null for anything else. */
export function readRetryAfter(text: string | undefined, nowMs: number): number | null {
  if (text === undefined) return null;
  const trimmed = text.trim();
  const ms = /^\d{1,10}$/.test(trimmed) ? Number(trimmed) * 1_000 : dateOf(trimmed) - nowMs;
  if (Number.isNaN(ms)) return null;
  return Math.min(MAX_RETRY_AFTER_MS, Math.max(0, Math.round(ms)));
}

const dateOf = (text: string): number => (/^[A-Z][a-z]+,? /.test(text) ? Date.parse(text) : Number.NaN);

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL = /[\u0000-\u001f\u007f-\u009f]+/g;

/** What may be kept of an answer. Null when there is nothing. */
export function excerptOf(body: Uint8Array): string | null {
  const text = new TextDecoder().decode(body.subarray(0, ANSWER_BYTES));
  const clean = maskAnswer(text).replaceAll(CONTROL, ' ').trim();
  return clean === '' ? null : boundText(clean, STORED_BYTES);
}
