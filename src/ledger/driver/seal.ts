import { createCipheriv, createDecipheriv, createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import { outsideOrg } from './org-reads.ts';
import { type Queryable, run, statement } from './statement.ts';

/** Makes texts that clients keep for us, such as cursors. They can neither read nor change them. */
export type Seal = {
  /** The same content in the same scope always gives the same text. */
  close(scope: string, content: string): string;
  /** Returns null if this database did not seal the text, or sealed it for another scope. */
  open(scope: string, sealed: string): string | null;
  /** A name for something that clients may tell apart but not know, such as a host. */
  pseudonymOf(name: string): string;
};

const FIND_KEY = statement('find_sealing_key', 'SELECT secret FROM millrace.sealing_key');

const KEY_BYTES = 32;
const seals = new WeakMap<Queryable, Promise<Seal>>();

/** The seal of a database. The first call for a pool reads the key. */
export function sealOf(given: Queryable): Promise<Seal> {
  const db = outsideOrg(given);
  const known = seals.get(db);
  if (known !== undefined) return known;
  const loading = run<{ secret: Buffer }>(db, FIND_KEY).then(([row]) => sealWith((row as { secret: Buffer }).secret));
  seals.set(db, loading);
  // A failed read is repeated by the next caller.
  loading.catch(() => seals.delete(db));
  return loading;
}

const TAG_BYTES = 16;
const CIPHER = 'aes-256-ctr';

/**
 * The tag is a digest of scope and content under one key, and the start of the cipher under another (as in SIV, RFC 5297). Unlike a random
 * start it never repeats for two contents, however many texts are sealed, and an event has the same id in every stream.
 */
function sealWith(secret: Buffer): Seal {
  const keyFor = (use: string): Buffer => Buffer.from(hkdfSync('sha256', secret, '', `millrace ${use}`, KEY_BYTES));
  const [tagKey, cipherKey, nameKey] = [keyFor('tag'), keyFor('cipher'), keyFor('pseudonym')];
  const tagOf = (scope: string, content: Buffer): Buffer =>
    createHmac('sha256', tagKey)
      .update(`${Buffer.byteLength(scope)}:${scope}`)
      .update(content)
      .digest()
      .subarray(0, TAG_BYTES);
  return {
    close(scope, content) {
      const bytes = Buffer.from(content);
      const tag = tagOf(scope, bytes);
      return Buffer.concat([tag, createCipheriv(CIPHER, cipherKey, tag).update(bytes)]).toString('base64url');
    },
    open(scope, sealed) {
      const bytes = Buffer.from(sealed, 'base64url');
      // Other spellings of the same bytes are refused as well.
      if (bytes.length <= TAG_BYTES || bytes.toString('base64url') !== sealed) return null;
      const tag = bytes.subarray(0, TAG_BYTES);
      const content = createDecipheriv(CIPHER, cipherKey, tag).update(bytes.subarray(TAG_BYTES));
      return timingSafeEqual(tag, tagOf(scope, content)) ? content.toString() : null;
    },
    pseudonymOf: (name) => createHmac('sha256', nameKey).update(name).digest('hex').slice(0, 12),
  };
}
