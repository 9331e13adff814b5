import { isSameSecret, type ParsedApiKey, parseApiKey } from '../../core/api-key.ts';
import { AppError, type ErrorCode } from '../../core/errors.ts';
import type { Engine } from '../../engine/engine.ts';
import { createKeyLookup, type KeyLookup, type StoredApiKey } from '../../services/access/look-up-keys.ts';
import { unavailable, within } from '../../services/admission/bounded-wait.ts';
import { BoundedMap } from './bounded-map.ts';
import { type Authenticator, type Identity, refusedTo, type Scope } from './identity.ts';

export type KeyAuthenticatorOptions = {
  database: Engine['database'];
  /** How long a cached key is valid. A revoked key stops working within this time. */
  trustMs?: number;
  capacity?: number;
};

const TRUST_MS = 3_000;
const UNKNOWN_TRUST_MS = 1_000;
/** When a secret does not match, a reading older than this is checked again: the key may have a new secret. */
const FRESH_MS = 100;
/** Limits these checks, so that wrong secrets cannot load the ledger. */
const CHECK_AGAIN_EVERY_MS = 1_000;
const CAPACITY = 10_000;
const MAX_WAIT_MS = 1_500;
const AFTER_FAILURE_MS = 250;
const NOTE_USE_EVERY_MS = 10_000;

/** A key as read from the ledger. `askedAtMs` is the monotonic time before the query. */
type Reading = { readonly key: StoredApiKey; readonly identity: Identity; readonly askedAtMs: number };

/**
 * Caches API keys by id for a few seconds. A key in use is refreshed in the background before its reading expires, so its
 * requests never wait. Unknown ids have a separate cache, so that guesses cannot evict real keys.
 */
export class KeyAuthenticator implements Authenticator {
  readonly #lookup: KeyLookup;
  readonly #trustMs: number;
  readonly #known: BoundedMap<Reading>;
  readonly #unknown: BoundedMap<number>;
  /** When a key was last checked again for a wrong secret, and when it was last forgotten. */
  readonly #checkedAgain: BoundedMap<number>;
  readonly #forgotten: BoundedMap<number>;
  readonly #asking = new Map<string, Promise<Reading | null>>();
  /** Parsed headers of admitted keys. Parsing and hashing a header takes a tenth of the time of a submit. */
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
    this.#checkedAgain = new BoundedMap(capacity);
    this.#forgotten = new BoundedMap(capacity);
  }

  recall(authorization: string | undefined): Identity | null {
    const met = authorization === undefined ? undefined : this.#met.get(authorization);
    const reading = met === undefined ? undefined : this.#trusted(met.id);
    if (met === undefined || reading === undefined || !isSameSecret(met.secretHash, reading.key.secretHash)) return null;
    return reading.key.isRevoked || isExpired(reading) ? null : reading.identity;
  }

  async authenticate(authorization: string | undefined): Promise<Identity> {
    const credential = credentialOf(authorization);
    const { id, secretHash } = credential;
    let reading = this.#trusted(id) ?? (await this.#read(id));
    let isSame = reading !== null && isSameSecret(secretHash, reading.key.secretHash);
    if (reading !== null && !isSame && this.#shouldCheckAgain(id, reading)) {
      reading = await within(MAX_WAIT_MS, this.#askLedger(id));
      isSame = reading !== null && isSameSecret(secretHash, reading.key.secretHash);
    }
    // An unknown id and a wrong secret return the same error, so that a caller cannot tell them apart.
    if (reading === null) throw refuse('UNKNOWN');
    const { orgId } = reading.identity;
    if (!isSame) throw refusedTo(orgId, refuse('UNKNOWN'));
    if (reading.key.isRevoked) throw refusedTo(orgId, refuse('REVOKED'));
    if (isExpired(reading)) throw refusedTo(orgId, refuse('EXPIRED'));
    this.#noteUse(id);
    if (this.#met.size < this.#capacity) this.#met.set(authorization as string, credential);
    return reading.identity;
  }

  /** Makes the next request with the key read it from the ledger. */
  forget(id: string): void {
    this.#known.delete(id);
    this.#unknown.delete(id);
    this.#checkedAgain.delete(id);
    // A query in flight may return the old state. Later callers do not join it, and its result is not cached.
    this.#asking.delete(id);
    this.#forgotten.set(id, performance.now());
  }

  #shouldCheckAgain(id: string, { askedAtMs }: Reading): boolean {
    const nowMs = performance.now();
    const checkedAtMs = this.#checkedAgain.get(id) ?? Number.NEGATIVE_INFINITY;
    if (nowMs - askedAtMs < FRESH_MS || nowMs - checkedAtMs < CHECK_AGAIN_EVERY_MS) return false;
    this.#checkedAgain.set(id, nowMs);
    return true;
  }

  /** Writes the pending times of last use. */
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

  /** Concurrent callers share one query for each key. */
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

  /** The last query failed a moment ago. Callers fail immediately instead of waiting for another failure. */
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
    // Best effort: a failed write is repeated after the next use.
    if (ids.length > 0) await this.#lookup.noteUse(ids).catch(() => {});
  }
}

const isExpired = ({ key, askedAtMs }: Reading): boolean => performance.now() - askedAtMs >= key.expiresInMs;

const identityOfKey = ({ id, orgId, projectId, scopes, isSelfRegistered }: StoredApiKey): Identity => ({
  keyId: id,
  orgId,
  projectId,
  scopes: new Set(scopes as Scope[]),
  isSelfRegistered,
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
  MISSING: ['UNAUTHORIZED', 'The API key is missing. Send it as "Authorization: Bearer mr_...".'],
  MALFORMED: ['UNAUTHORIZED', 'The API key is not valid: it was mistyped or cut short. Copy it again.'],
  UNKNOWN: ['UNAUTHORIZED', 'The API key is not known. Check that it belongs to this server.'],
  EXPIRED: ['UNAUTHORIZED', 'The API key has expired. Create a new one.'],
  REVOKED: ['FORBIDDEN', 'The API key was revoked. Create a new one.'],
} as const satisfies Record<string, readonly [ErrorCode, string]>;

function refuse(reason: keyof typeof REFUSALS): AppError {
  const [code, message] = REFUSALS[reason];
  return new AppError(code, { message, details: [{ field: 'authorization', code: reason, message }] });
}
