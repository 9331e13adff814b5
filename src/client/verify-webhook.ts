/** The body of a webhook. `data` has more members for some events. */
export type WebhookEvent = {
  /** `job.succeeded`, `job.failed`, `webhook.test`, … */
  type: string;
  /** When it happened, ISO 8601. */
  timestamp: string;
  /** The facts of the event. */
  data: Record<string, unknown>;
};

/** Anything with a `get`, such as the Headers of any library, or a plain object. */
export type WebhookHeaders =
  | {
      /** Returns the value of a header, whatever the case of its name. */
      get(name: string): string | null | undefined;
    }
  | PlainHeaders;
type PlainHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A received webhook, and the secrets to verify it with. */
export type VerifyWebhookParams = {
  /** The received body, unparsed. Parsing and serialising it again may change it. */
  body: string | Uint8Array;
  /** The headers of the request. */
  headers: WebhookHeaders;
  /** `whsec_…`; pass both secrets while one is being replaced. */
  secret: string | readonly string[];
  /** How many seconds the time of the message may differ from now. Default 300. */
  toleranceSeconds?: number;
  /** The current time in milliseconds. Default: the clock of this machine. */
  now?: () => number;
};

/** Why a webhook is refused. */
export type WebhookRefusal = 'MISSING_HEADER' | 'MALFORMED' | 'TOO_OLD' | 'TOO_NEW' | 'NO_MATCH' | 'BAD_SECRET';

/** The message cannot be trusted. Match `code`; the wording of the message may change. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
  /** Why the message is refused. */
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

/** Returns the event of a webhook that the server sent recently and nothing changed since. Throws for any other message. */
export async function verifyWebhook<T = WebhookEvent>(params: VerifyWebhookParams): Promise<T> {
  const { body, headers, secret, toleranceSeconds = TOLERANCE_SECONDS, now = Date.now } = params;
  if (!Number.isFinite(toleranceSeconds) || toleranceSeconds < 0)
    throw new RangeError('toleranceSeconds must be a number of seconds, 0 or more');
  const secrets = (typeof secret === 'string' ? [secret] : secret).map(readSecret);
  if (secrets.length === 0)
    throw new WebhookVerificationError('BAD_SECRET', 'No secret was given. Pass the secret of the webhook endpoint.');
  const id = readHeader(headers, 'webhook-id');
  const timestamp = readHeader(headers, 'webhook-timestamp');
  const signatures = readSignatures(readHeader(headers, 'webhook-signature'));
  checkTime(timestamp, { toleranceSeconds, nowSeconds: now() / 1_000 });
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const signed = concatenate(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  if (!(await anyMatches({ secrets, signatures, signed })))
    throw new WebhookVerificationError(
      'NO_MATCH',
      'No signature of the message matches the secret. Check the secret, and pass the body as it was received.',
    );
  return parse<T>(bytes);
}

function readHeader(headers: WebhookHeaders, name: string): string {
  const value = hasGet(headers) ? headers.get(name) : lookUp(headers, name);
  if (typeof value === 'string' && value !== '') return value;
  throw new WebhookVerificationError('MISSING_HEADER', `The message has no ${name} header. Pass all headers of the request.`);
}

const hasGet = (headers: WebhookHeaders): headers is Exclude<WebhookHeaders, PlainHeaders> => typeof headers.get === 'function';

function lookUp(headers: PlainHeaders, name: string): string | undefined {
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() !== name) continue;
    // A repeated header is ambiguous.
    return typeof value === 'string' ? value : value?.length === 1 ? value[0] : undefined;
  }
  return undefined;
}

function readSecret(text: string): Uint8Array<ArrayBuffer> {
  const bytes = decode(text.startsWith(PREFIX) ? text.slice(PREFIX.length) : text);
  if (bytes !== null && bytes.length >= MIN_SECRET_BYTES && bytes.length <= MAX_SECRET_BYTES) return bytes;
  throw new WebhookVerificationError('BAD_SECRET', `The secret is not valid. Pass it whole, with ${PREFIX} at its beginning.`);
}

/** The signatures of version 1. The header may also have signatures of other versions. */
function readSignatures(header: string): Uint8Array<ArrayBuffer>[] {
  return header.split(' ').flatMap((part) => {
    const [version, text = ''] = part.split(',');
    const bytes = version === 'v1' ? decode(text) : null;
    return bytes === null ? [] : [bytes];
  });
}

function checkTime(text: string, { toleranceSeconds, nowSeconds }: { toleranceSeconds: number; nowSeconds: number }) {
  if (!/^\d{1,12}$/.test(text)) throw new WebhookVerificationError('MALFORMED', 'The header webhook-timestamp is not a number of seconds.');
  const ageSeconds = nowSeconds - Number(text);
  if (ageSeconds > toleranceSeconds) throw new WebhookVerificationError('TOO_OLD', `The message is ${Math.round(ageSeconds)} s old.`);
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
