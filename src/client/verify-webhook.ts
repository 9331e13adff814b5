/** What a webhook of the server tells; `data` holds more members for some events. */
export type WebhookEvent = {
  /** `job.succeeded`, `job.failed`, `webhook.test`, … */
  type: string;
  /** When it happened, ISO 8601. */
  timestamp: string;
  data: Record<string, unknown>;
};

/** Anything with a `get`, such as the Headers of any library, or a plain object. */
export type WebhookHeaders = { get(name: string): string | null | undefined } | PlainHeaders;
type PlainHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export type VerifyWebhookParams = {
  /** As it came: parsed and written again it may differ. */
  body: string | Uint8Array;
  headers: WebhookHeaders;
  /** `whsec_…`; both of them while a secret is being replaced. */
  secret: string | readonly string[];
  /** How far the time of the message may be from now; 300 unless given. */
  toleranceSeconds?: number;
  /** Milliseconds; the time of this machine unless given. */
  now?: () => number;
};

export type WebhookRefusal = 'MISSING_HEADER' | 'MALFORMED' | 'TOO_OLD' | 'TOO_NEW' | 'NO_MATCH' | 'BAD_SECRET';

/** The message is not to be believed. Match `code`; the wording of the message may change. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
  readonly code: WebhookRefusal;

  constructor(code: WebhookRefusal, message: string) {
    super(message);
    this.code = code;
  }
}

const TOLERANCE_SECONDS = 300;
const PREFIX = 'whsec_';
const MIN_SECRET_BYTES = 24;
const MAX_SECRET_BYTES = 64;
const HMAC = { name: 'HMAC', hash: 'SHA-256' } as const;

/** Answers the event of a webhook that came from the server a moment ago and was not changed; throws for any other. */
export async function verifyWebhook<T = WebhookEvent>(params: VerifyWebhookParams): Promise<T> {
  const { body, headers, secret, toleranceSeconds = TOLERANCE_SECONDS, now = Date.now } = params;
  if (!Number.isFinite(toleranceSeconds) || toleranceSeconds < 0)
    throw new RangeError('toleranceSeconds must be a number of seconds, 0 or more');
  const secrets = (typeof secret === 'string' ? [secret] : secret).map(readSecret);
  if (secrets.length === 0) throw new WebhookVerificationError('BAD_SECRET', 'No secret was given.');
  const id = readHeader(headers, 'webhook-id');
  const timestamp = readHeader(headers, 'webhook-timestamp');
  const signatures = readSignatures(readHeader(headers, 'webhook-signature'));
  checkTime(timestamp, { toleranceSeconds, nowSeconds: now() / 1_000 });
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const signed = concatenate(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  if (!(await anyMatches({ secrets, signatures, signed })))
    throw new WebhookVerificationError('NO_MATCH', 'No signature of the message fits the secret.');
  return parse<T>(bytes);
}

function readHeader(headers: WebhookHeaders, name: string): string {
  const value = hasGet(headers) ? headers.get(name) : lookUp(headers, name);
  if (typeof value === 'string' && value !== '') return value;
  throw new WebhookVerificationError('MISSING_HEADER', `The message has no header ${name}.`);
}

const hasGet = (headers: WebhookHeaders): headers is Exclude<WebhookHeaders, PlainHeaders> =>
  typeof headers.get === 'function';

function lookUp(headers: PlainHeaders, name: string): string | undefined {
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() !== name) continue;
    // Repeated, it says nothing certain.
    return typeof value === 'string' ? value : value?.length === 1 ? value[0] : undefined;
  }
  return undefined;
}

function readSecret(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decode(text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text);
  if (bytes !== null && bytes.length >= MIN_SECRET_BYTES && bytes.length <= MAX_SECRET_BYTES) return bytes;
  throw new WebhookVerificationError('BAD_SECRET', `The secret is not one: it begins with ${PREFIX}.`);
}

/** Those of the version that is known here; there may be others beside them. */
function readSignatures(header: string): Uint8Array<ArrayBuffer>[] {
  return header.split(' ').flatMap((part) => {
    const [version, text = ''] = part.split(',');
    const bytes = version === 'v1' ? decode(text) : null;
    return bytes === null ? [] : [bytes];
  });
}

function checkTime(text: string, { toleranceSeconds, nowSeconds }: { toleranceSeconds: number; nowSeconds: number }) {
  if (!/^\d{1,12}$/.test(text))
    throw new WebhookVerificationError('MALFORMED', 'The header webhook-timestamp is not a number of seconds.');
  const ageSeconds = nowSeconds - Number(text);
  if (ageSeconds > toleranceSeconds)
    throw new WebhookVerificationError('TOO_OLD', `The message is ${Math.round(ageSeconds)} s old.`);
  if (ageSeconds < -toleranceSeconds)
    throw new WebhookVerificationError('TOO_NEW', `The message is ${Math.round(-ageSeconds)} s ahead of this clock.`);
}

type Comparison = {
  secrets: readonly Uint8Array<ArrayBuffer>[];
  signatures: readonly Uint8Array<ArrayBuffer>[];
  signed: Uint8Array<ArrayBuffer>;
};

async function anyMatches({ secrets, signatures, signed }: Comparison): Promise<boolean> {
  for (const secret of secrets) {
    const key = await crypto.subtle.importKey('raw', secret, HMAC, false, ['verify']);
    // Compares in constant time.
    for (const signature of signatures) if (await crypto.subtle.verify(HMAC, key, signature, signed)) return true;
  }
  return false;
}

function parse<T>(bytes: Uint8Array): T {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as T;
  } catch {
    throw new WebhookVerificationError('MALFORMED', 'The body is not JSON.');
  }
}

function decode(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

function concatenate(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}
