import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_RANDOM_BYTES, formatApiKey } from '../../src/core/api-key.ts';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { listKeys } from '../../src/services/access/list-keys.ts';
import { revokeKey } from '../../src/services/access/revoke-key.ts';
import { openRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { serveWho, watchStatements } from './auth-fixture.ts';

const ledger = useLedger();
const bearer = (key: string) => `Bearer ${key}`;
const aKeyOfNobody = () => formatApiKey(randomBytes(API_KEY_RANDOM_BYTES)).key;
const newKey = async () => createKey(ledger.db, { orgId: await ledger.newOrg() });

const codeOf = (asked: Promise<unknown>): Promise<string> =>
  asked.then(
    () => 'OK',
    (error) => error.code,
  );

describe('a revoked key', () => {
  it('stops working within 5 seconds on every node, though all of them know it and are kept busy with it', async () => {
    const nodes = [await serveWho({ database: ledger.db }), await serveWho({ database: ledger.db })];
    const { key, id } = await newKey();
    for (const node of nodes) expect((await node.ask('any', bearer(key))).status).toBe(200);
    const revokedAtMs = performance.now();
    await revokeKey(ledger.db, { keyId: id });
    await Promise.all(nodes.map((node) => until('the node refuses the key', async () => (await node.ask('any', bearer(key))).status, 403)));
    expect(performance.now() - revokedAtMs).toBeLessThan(5_000);
  });

  it('is refused by an idle node once its cached reading is too old', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db, trustMs: 100 });
    const { key, id } = await newKey();
    await authenticator.authenticate(bearer(key));
    await revokeKey(ledger.db, { keyId: id });
    const revokedAtMs = performance.now();
    await until('the reading is too old to be trusted', () => performance.now() - revokedAtMs > 100);
    expect(await codeOf(authenticator.authenticate(bearer(key)))).toBe('FORBIDDEN');
  });
});

describe('a key in use', () => {
  it('is looked up once for any number of requests', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db });
    const { key } = await newKey();
    const statements = watchStatements();
    await Promise.all(Array.from({ length: 50 }, () => authenticator.authenticate(bearer(key))));
    for (let call = 0; call < 500; call++) await authenticator.authenticate(bearer(key));
    expect(statements).toEqual(['find_api_keys']);
  });

  it('shares a lookup with the other keys of the moment', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db });
    const keys = await Promise.all(Array.from({ length: 20 }, newKey));
    const statements = watchStatements();
    await Promise.all(keys.map(({ key }) => authenticator.authenticate(bearer(key))));
    expect(statements).toEqual(['find_api_keys']);
  });

  it('is read again in the background: no request waits for it', async () => {
    const { road, database } = await openRoad(ledger.db.url);
    const authenticator = new KeyAuthenticator({ database });
    const { key } = await newKey();
    await authenticator.authenticate(bearer(key));
    const statements = watchStatements();
    const isReadAgain = async () => {
      await authenticator.authenticate(bearer(key));
      return statements.includes('find_api_keys');
    };
    await until('the key has been read again', isReadAgain);
    road.block();
    const blockedAtMs = performance.now();
    // Long enough for the next reading to be under way, and lost.
    await until('the next reading has been under way and lost', async () => {
      const askedAtMs = performance.now();
      await authenticator.authenticate(bearer(key));
      expect(performance.now() - askedAtMs).toBeLessThan(1_000);
      return performance.now() - blockedAtMs > 1_800;
    });
  });

  it('has its last use noted, without a write for each request', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db });
    const { key, orgId } = await newKey();
    const statements = watchStatements();
    for (let call = 0; call < 20; call++) await authenticator.authenticate(bearer(key));
    await authenticator.close();
    expect(statements.filter((name) => name === 'touch_api_keys')).toHaveLength(1);
    expect((await listKeys(ledger.db, { projectId: null, orgId }))[0]?.lastUsedAt).toBeInstanceOf(Date);
  });
});

describe('unknown keys', () => {
  it('are remembered for a moment as unknown', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db });
    const key = aKeyOfNobody();
    const statements = watchStatements();
    for (let call = 0; call < 20; call++) {
      expect(await codeOf(authenticator.authenticate(bearer(key)))).toBe('UNAUTHORIZED');
    }
    expect(statements).toEqual(['find_api_keys']);
  });

  it('do not evict real keys from the cache, however many there are', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db, capacity: 10 });
    const { key } = await newKey();
    await authenticator.authenticate(bearer(key));
    const guesses = Array.from({ length: 100 }, () => codeOf(authenticator.authenticate(bearer(aKeyOfNobody()))));
    expect(new Set(await Promise.all(guesses))).toEqual(new Set(['UNAUTHORIZED']));
    const statements = watchStatements();
    await authenticator.authenticate(bearer(key));
    expect(statements).toEqual([]);
  });

  it('in a flood are refused as too many, not gathered without bound', async () => {
    const authenticator = new KeyAuthenticator({ database: ledger.db });
    const guesses = Array.from({ length: 3_000 }, () => codeOf(authenticator.authenticate(bearer(aKeyOfNobody()))));
    const codes = await Promise.all(guesses);
    expect(codes).toContain('UNAVAILABLE');
    expect(new Set(codes)).toEqual(new Set(['UNAUTHORIZED', 'UNAVAILABLE']));
  });
});

/** A session gives up a statement of the API that is not answered for so long. */
const STATEMENT_MS = 6_000;

describe('without the database', () => {
  it('known keys work while they are trusted, then every answer is 503 with Retry-After, and keys work again afterwards', async () => {
    const { road, database } = await openRoad(ledger.db.url);
    const who = await serveWho({ database, trustMs: 1_000 });
    const { key } = await newKey();
    expect((await who.ask('any', bearer(key))).status).toBe(200);
    await road.close();
    expect((await who.ask('any', bearer(key))).status).toBe(200);
    await until('the key can no longer be checked', async () => (await who.ask('any', bearer(key))).status, 503);
    const { status, body, headers } = await who.ask('any', bearer(key));
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'UNAVAILABLE', '1']);
    expect((await who.ask('any', 'Bearer nonsense')).status).toBe(401);
    await road.open();
    await until('the key works again', async () => (await who.ask('any', bearer(key))).status, 200);
  });

  it('a caller does not wait for one that is silent until its statement is given up', async () => {
    const { road, database } = await openRoad(ledger.db.url);
    const authenticator = new KeyAuthenticator({ database });
    await authenticator.authenticate(bearer((await newKey()).key));
    const { key } = await newKey();
    road.block();
    const askedAtMs = performance.now();
    expect(await codeOf(authenticator.authenticate(bearer(key)))).toBe('UNAVAILABLE');
    expect(performance.now() - askedAtMs).toBeLessThan(STATEMENT_MS);
    road.unblock();
    await until('the key works again', () => codeOf(authenticator.authenticate(bearer(key))), 'OK');
  });
});
