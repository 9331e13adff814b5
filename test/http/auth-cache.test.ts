import { randomBytes } from 'node:crypto';
import type pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { API_KEY_RANDOM_BYTES, formatApiKey } from '../../src/core/api-key.ts';
import { KeyAuthenticator, type KeyAuthenticatorOptions } from '../../src/http/shared/key-authenticator.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { listKeys } from '../../src/services/access/list-keys.ts';
import { revokeKey } from '../../src/services/access/revoke-key.ts';
import { openRoad } from '../ledger/database-road.ts';
import { useLedger } from '../ledger/fixture.ts';
import { until } from '../until.ts';
import { serveWho, watchStatements } from './auth-fixture.ts';
import { stopTime } from './stopped-time.ts';

const ledger = useLedger();
const bearer = (key: string) => `Bearer ${key}`;
const aKeyOfNobody = () => formatApiKey(randomBytes(API_KEY_RANDOM_BYTES)).key;

/** Closed when the test has finished, so that it does not note the use of its keys later. */
function open(options: Partial<KeyAuthenticatorOptions> = {}): KeyAuthenticator {
  const authenticator = new KeyAuthenticator({ database: ledger.db, ...options });
  onTestFinished(() => authenticator.close());
  return authenticator;
}

const newKey = async () => createKey(ledger.db, { orgId: await ledger.newOrg() });

const codeOf = (asked: Promise<unknown>): Promise<string> =>
  asked.then(
    () => 'OK',
    (error) => error.code,
  );

describe('a revoked key', () => {
  it('stops working within 5 seconds on every node, though all of them know it and are kept busy with it', async () => {
    const letPass = stopTime();
    const nodes = [await serveWho({ database: ledger.db }), await serveWho({ database: ledger.db })];
    const { key, id } = await newKey();
    for (const node of nodes) expect((await node.ask('any', bearer(key))).status).toBe(200);
    await revokeKey(ledger.db, { keyId: id });
    for (let passedMs = 0; passedMs < 4_900; passedMs += 100) {
      letPass(100);
      for (const node of nodes) await node.ask('any', bearer(key));
    }
    for (const node of nodes) expect((await node.ask('any', bearer(key))).status).toBe(403);
  });

  it('is refused by an idle node once its cached reading is too old', async () => {
    const letPass = stopTime();
    const authenticator = open({ trustMs: 100 });
    const { key, id } = await newKey();
    await authenticator.authenticate(bearer(key));
    await revokeKey(ledger.db, { keyId: id });
    letPass(100);
    expect(await codeOf(authenticator.authenticate(bearer(key)))).toBe('FORBIDDEN');
  });
});

describe('a key in use', () => {
  it('is looked up once for any number of requests', async () => {
    stopTime();
    const authenticator = open();
    const { key } = await newKey();
    const statements = watchStatements();
    await Promise.all(Array.from({ length: 50 }, () => authenticator.authenticate(bearer(key))));
    for (let call = 0; call < 500; call++) await authenticator.authenticate(bearer(key));
    expect(statements).toEqual(['find_api_keys']);
  });

  it('shares a lookup with the other keys of the moment', async () => {
    const authenticator = open();
    const keys = await Promise.all(Array.from({ length: 20 }, newKey));
    const statements = watchStatements();
    await Promise.all(keys.map(({ key }) => authenticator.authenticate(bearer(key))));
    expect(statements).toEqual(['find_api_keys']);
  });

  it('is read again in the background: no request waits for it', async () => {
    const letPass = stopTime();
    const { road, database } = await openRoad(ledger.db.url);
    const authenticator = open({ database });
    const { key } = await newKey();
    await authenticator.authenticate(bearer(key));
    const statements = watchStatements();
    letPass(2_000);
    await authenticator.authenticate(bearer(key));
    await until('the key has been read again', () => statements.includes('find_api_keys'));
    road.block();
    letPass(2_000);
    // Each finds the next reading under way, and lost: one that waited for it would be told that the database does not respond.
    for (let call = 0; call < 5; call++) await authenticator.authenticate(bearer(key));
  });

  it('has its last use noted, without a write for each request', async () => {
    const names: unknown[] = [];
    const query = (config: pg.QueryConfig) => {
      names.push(config.name);
      return ledger.db.api.query(config);
    };
    const authenticator = open({ database: { ...ledger.db, api: { query } as unknown as pg.Pool } });
    const { key, orgId } = await newKey();
    for (let call = 0; call < 20; call++) await authenticator.authenticate(bearer(key));
    await authenticator.close();
    expect(names.filter((name) => name === 'millrace_touch_api_keys')).toHaveLength(1);
    expect((await listKeys(ledger.db, { projectId: null, orgId }))[0]?.lastUsedAt).toBeInstanceOf(Date);
  });
});

describe('unknown keys', () => {
  it('are remembered for a moment as unknown', async () => {
    stopTime();
    const authenticator = open();
    const key = aKeyOfNobody();
    const statements = watchStatements();
    for (let call = 0; call < 20; call++) {
      expect(await codeOf(authenticator.authenticate(bearer(key)))).toBe('UNAUTHORIZED');
    }
    expect(statements).toEqual(['find_api_keys']);
  });

  it('do not evict real keys from the cache, however many there are', async () => {
    stopTime();
    const authenticator = open({ capacity: 10 });
    const { key } = await newKey();
    await authenticator.authenticate(bearer(key));
    const guesses = Array.from({ length: 100 }, () => codeOf(authenticator.authenticate(bearer(aKeyOfNobody()))));
    expect(new Set(await Promise.all(guesses))).toEqual(new Set(['UNAUTHORIZED']));
    const statements = watchStatements();
    await authenticator.authenticate(bearer(key));
    expect(statements).toEqual([]);
  });

  it('in a flood are refused as too many, not gathered without bound', async () => {
    const authenticator = open();
    const guesses = Array.from({ length: 3_000 }, () => codeOf(authenticator.authenticate(bearer(aKeyOfNobody()))));
    const codes = await Promise.all(guesses);
    expect(codes).toContain('UNAVAILABLE');
    expect(new Set(codes)).toEqual(new Set(['UNAUTHORIZED', 'UNAVAILABLE']));
  });
});

describe('without the database', () => {
  it('known keys work while they are trusted, then every answer is 503 with Retry-After, and keys work again afterwards', async () => {
    const letPass = stopTime();
    const { road, database } = await openRoad(ledger.db.url);
    const who = await serveWho({ database, trustMs: 1_000 });
    const { key } = await newKey();
    expect((await who.ask('any', bearer(key))).status).toBe(200);
    await road.close();
    expect((await who.ask('any', bearer(key))).status).toBe(200);
    letPass(1_000);
    const { status, body, headers } = await who.ask('any', bearer(key));
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'UNAVAILABLE', '1']);
    expect((await who.ask('any', 'Bearer nonsense')).status).toBe(401);
    await road.open();
    await until(
      'the key works again',
      async () => {
        letPass(100);
        return (await who.ask('any', bearer(key))).status;
      },
      200,
    );
  });

  it('a caller does not wait for one that is silent until its statement is given up', async () => {
    const { road, database } = await openRoad(ledger.db.url);
    const authenticator = open({ database });
    await authenticator.authenticate(bearer((await newKey()).key));
    const { key } = await newKey();
    road.block();
    // The statement is told of when its session gives it up.
    const statements = watchStatements();
    expect(await codeOf(authenticator.authenticate(bearer(key)))).toBe('UNAVAILABLE');
    expect(statements).toEqual([]);
    road.unblock();
    await until('the key works again', () => codeOf(authenticator.authenticate(bearer(key))), 'OK');
  });
});
