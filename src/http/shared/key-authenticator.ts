import { isSameSecret, type ParsedApiKey, parseApiKey } from '../../core/api-key.ts';
import { AppError, type ErrorCode } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { createKeyLookup, type KeyLookup, type StoredApiKey } from '../../services/access/look-up-keys.ts';
import { unavailable, within } from '../../services/admission/bounded-wait.ts';
import { BoundedMap } from './bounded-map.ts';
import { type Authenticator, type Identity, refusedTo, type Scope } from './identity.ts';

export type KeyAuthenticatorOptions = {
  database: Engine['database'];
  /** How long a reading of a key is trusted: a revoked key works no longer than this. */
  trustMs?: number;
  capacity?: number;
};

const TRUST_MS = 3_000;
const UNKNOWN_TRUST_MS = 1_000;
/** A reading older than this is doubted where the secret does not fit: the key may have another since. */
const FRESH_MS = 100;
/** So that wrong secrets do not become a way to make the ledger work. */
const DOUBT_EVERY_MS = 1_000;
const CAPACITY = 10_000;
const MAX_WAIT_MS = 1_500;
const AFTER_FAILURE_MS = 250;
const NOTE_USE_EVERY_MS = 10_000;

/** What the ledger said of a key, and when it was asked on the monotonic clock. */
type Reading = { readonly key: StoredApiKey; readonly identity: Identity; readonly askedAtMs: number };

/**
 * Knows keys by their id from readings of the ledger a few seconds old. A key in use is read again in the background before
 * its reading is too old, so its requests never wait. Unknown ids are remembered apart: guessing cannot push out real keys.
 */
export class KeyAuthenticator implements Authenticator {
  readonly #lookup: KeyLookup;
  readonly #trustMs: number;
  readonly #known: BoundedMap<Reading>;
  readonly #unknown: BoundedMap<number>;
  /** When the secret of a key was last doubted, and when a key was last forgotten. */
  readonly #doubted: BoundedMap<number>;
  readonly #forgotten: BoundedMap<number>;
  readonly #asking = new Map<string, Promise<Reading | null>>();
  /** Headers whose key was let in since use was last written, as they came: reading and hashing them again is a tenth of a submit. */
  readonly #met = new Map<string, ParsedApiKey>();
  readonly #used = new Set<string>();
  readonly #capacity: number;
  #noting: NodeJS.Timeout | null = null;
  #failedAtMs = Number.NEGATIVE_INFINITY;

  constructor({ database, trustMs = TRUST_MS, capacity = CAPACITY }: KeyAuthenticatorOptions) {
    this.#lookup = createKeyLookup(database);
    this.#trustMs = trustMs;
    this.#capacity = capacity;
    this.#known = new BoundedMap(capacity);
    this.#unknown = new BoundedMap(capacity);
    this.#doubted = new BoundedMap(capacity);
    this.#forgotten = new BoundedMap(capacity);
  }

  recall(authorization: string | undefined): Identity | null {
    const met = authorization === undefined ? undefined : this.#met.get(authorization);
    const reading = met === undefined ? undefined : this.#trusted(met.id);
    if (met === undefined || reading === undefined || !isSameSecret(met.secretHash, reading.key.secretHash))
      return null;
    return reading.key.isRevoked || isExpired(reading) ? null : reading.identity;
  }

  async authenticate(authorization: string | undefined): Promise<Identity> {
    const credential = credentialOf(authorization);
    const { id, secretHash } = credential;
    let reading = this.#trusted(id) ?? (await this.#read(id));
    let isSame = reading !== null && isSameSecret(secretHash, reading.key.secretHash);
    if (reading !== null && !isSame && this.#isToDoubt(id, reading)) {
      reading = await within(MAX_WAIT_MS, this.#askLedger(id));
      isSame = reading !== null && isSameSecret(secretHash, reading.key.secretHash);
    }
    // The same refusal for an id that nobody has and for a wrong secret.
    if (reading === null) throw refuse('UNKNOWN');
    const { orgId } = reading.identity;
    if (!isSame) throw refusedTo(orgId, refuse('UNKNOWN'));
    if (reading.key.isRevoked) throw refusedTo(orgId, refuse('REVOKED'));
    if (isExpired(reading)) throw refusedTo(orgId, refuse('EXPIRED'));
    this.#noteUse(id);
    if (this.#met.size < this.#capacity) this.#met.set(authorization as string, credential);
    return reading.identity;
  }

  /** The next request with the key is judged by what the ledger says then. */
  forget(id: string): void {
    this.#known.delete(id);
    this.#unknown.delete(id);
    this.#doubted.delete(id);
    // An answer under way may tell what was before: nobody else waits for it, and it is not kept.
    this.#asking.delete(id);
    this.#forgotten.set(id, performance.now());
  }

  #isToDoubt(id: string, { askedAtMs }: Reading): boolean {
    const nowMs = performance.now();
    const doubtedAtMs = this.#doubted.get(id) ?? Number.NEGATIVE_INFINITY;
    if (nowMs - askedAtMs < FRESH_MS || nowMs - doubtedAtMs < DOUBT_EVERY_MS) return false;
    this.#doubted.set(id, nowMs);
    return true;
  }

  /** Writes what is still to be written of the keys' use. */
  async close(): Promise<void> {
    if (this.#noting !== null) clearTimeout(this.#noting);
    await this.#writeUse();
  }

  #trusted(id: string): Reading | undefined {
    const reading = this.#known.get(id);
    if (reading === undefined) return undefined;
    const ageMs = performance.now() - reading.askedAtMs;
    if (ageMs >= this.#trustMs) return undefined;
    if (ageMs >= this.#trustMs / 2 && !this.#isFailing()) this.#ask(id).catch(() => {});
    return reading;
  }

  async #read(id: string): Promise<Reading | null> {
    const unknownSinceMs = this.#unknown.get(id);
    if (unknownSinceMs !== undefined && performance.now() - unknownSinceMs < UNKNOWN_TRUST_MS) return null;
    if (this.#isFailing()) throw unavailable();
    return within(MAX_WAIT_MS, this.#ask(id));
  }

  /** One question at a time about one key. */
  #ask(id: string): Promise<Reading | null> {
    const asked = this.#asking.get(id);
    if (asked !== undefined) return asked;
    const asking = this.#askLedger(id).finally(() => {
      if (this.#asking.get(id) === asking) this.#asking.delete(id);
    });
    this.#asking.set(id, asking);
    return asking;
  }

  async #askLedger(id: string): Promise<Reading | null> {
    const askedAtMs = performance.now();
    const key = await this.#lookup.find(id).catch((error) => {
      this.#failedAtMs = performance.now();
      throw error;
    });
    const isOutdated = askedAtMs <= (this.#forgotten.get(id) ?? Number.NEGATIVE_INFINITY);
    if (key === null) {
      this.#known.delete(id);
      if (!isOutdated) this.#unknown.set(id, askedAtMs);
      return null;
    }
    const reading = { key, identity: identityOfKey(key), askedAtMs };
    if (!isOutdated) this.#known.set(id, reading);
    return reading;
  }

  /** The ledger failed a moment ago: asking again now would only make callers wait for the same answer. */
  #isFailing(): boolean {
    return performance.now() - this.#failedAtMs < AFTER_FAILURE_MS;
  }

  #noteUse(id: string): void {
    if (this.#used.size < this.#capacity) this.#used.add(id);
    if (this.#noting !== null) return;
    this.#noting = setTimeout(() => void this.#writeUse(), NOTE_USE_EVERY_MS);
    this.#noting.unref();
  }

  async #writeUse(): Promise<void> {
    this.#noting = null;
    const ids = [...this.#used];
    this.#used.clear();
    this.#met.clear();
    // Nobody waits for it, and the next use says the same again.
    if (ids.length > 0) await this.#lookup.noteUse(ids).catch(() => {});
  }
}

const isExpired = ({ key, askedAtMs }: Reading): boolean => performance.now() - askedAtMs >= key.expiresInMs;

const identityOfKey = ({ id, orgId, projectId, scopes }: StoredApiKey): Identity => ({
  ...{ keyId: id, orgId, projectId },
  scopes: new Set(scopes as Scope[]),
});

const BEARER = /^bearer +(\S+)$/i;

function credentialOf(authorization: string | undefined) {
  if (authorization === undefined || authorization.trim() === '') throw refuse('MISSING');
  const text = BEARER.exec(authorization.trim())?.[1];
  const parsed = text === undefined ? null : parseApiKey(text);
  if (parsed === null) throw refuse('MALFORMED');
  return parsed;
}

const REFUSALS = {
  MISSING: ['UNAUTHORIZED', 'An API key is needed: send it as "Authorization: Bearer mr_...".'],
  MALFORMED: ['UNAUTHORIZED', 'This is not an API key of Millrace: it was mistyped or cut short.'],
  UNKNOWN: ['UNAUTHORIZED', 'The API key is not known.'],
  EXPIRED: ['UNAUTHORIZED', 'The API key has expired.'],
  REVOKED: ['FORBIDDEN', 'The API key was revoked.'],
} as const satisfies Record<string, readonly [ErrorCode, string]>;

function refuse(reason: keyof typeof REFUSALS): AppError {
  const [code, message] = REFUSALS[reason];
  return new AppError(code, { message, details: [{ field: 'authorization', code: reason, message }] });
}
