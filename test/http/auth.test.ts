import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { API_KEY_RANDOM_BYTES, API_KEY_SCOPES, formatApiKey } from '../../src/core/api-key.ts';
import type { Scope } from '../../src/http/shared/identity.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { revokeKey } from '../../src/services/access/revoke-key.ts';
import { useLedger } from '../ledger/fixture.ts';
import { newProject } from '../ledger/new-project.ts';
import { stopClock } from '../ledger/set-clock.ts';
import { serveWho, watchStatements } from './auth-fixture.ts';
import { stopTime } from './stopped-time.ts';

const ledger = useLedger();
const bearer = (key: string) => `Bearer ${key}`;
const pathOf = (scope: Scope) => scope.replace(':', '-');
const serveHere = () => serveWho({ database: ledger.db });
const aKeyOfNobody = () => formatApiKey(randomBytes(API_KEY_RANDOM_BYTES)).key;

async function newKey(scopes: readonly Scope[] = API_KEY_SCOPES, orgId?: string) {
  return createKey(ledger.db, { orgId: orgId ?? (await ledger.newOrg()), scopes });
}

/** The same id with another secret, the checksum right. */
function forge(key: string): string {
  const random = randomBytes(API_KEY_RANDOM_BYTES);
  random.set(idBytes(key));
  return formatApiKey(random).key;
}

function idBytes(key: string): Uint8Array {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  let value = 0n;
  for (const digit of key.split('_')[1] as string) value = value * 62n + BigInt(digits.indexOf(digit));
  return Uint8Array.from({ length: 9 }, (_, index) => Number((value >> BigInt(8 * (8 - index))) & 0xffn));
}

describe('a route that names scopes', () => {
  it.each(API_KEY_SCOPES)('lets a key with %s alone through where that is needed, and nowhere else [GA-6.19]', async (scope) => {
    const who = await serveHere();
    const { key } = await newKey([scope]);
    for (const other of API_KEY_SCOPES) {
      const { status, body } = await who.ask(pathOf(other), bearer(key));
      expect([other, status]).toEqual([other, other === scope ? 200 : 403]);
      if (other !== scope) {
        expect(body).toMatchObject({ code: 'FORBIDDEN', details: [{ code: 'MISSING_SCOPE' }] });
        expect(body.message).toContain(other);
      }
    }
  });

  it('needs all the permissions that it names [GA-6.19]', async () => {
    const who = await serveHere();
    for (const [scopes, status] of [
      [['jobs:read'], 403],
      [['jobs:cancel'], 403],
      [['jobs:read', 'jobs:cancel'], 200],
      [API_KEY_SCOPES, 200],
    ] as const) {
      expect((await who.ask('two', bearer((await newKey(scopes)).key))).status).toBe(status);
    }
  });

  it('knows the org, the key and the project of its caller', async () => {
    const who = await serveHere();
    const orgId = await ledger.newOrg();
    const projectId = await newProject(ledger.db, orgId);
    const { key, id } = await createKey(ledger.db, { orgId, projectId, scopes: ['jobs:read'] });
    const { body } = await who.ask('jobs-read', bearer(key));
    expect(body.caller).toEqual({ orgId, keyId: id, projectId, scopes: ['jobs:read'], isSelfRegistered: false });
  });

  it('never confuses two orgs under concurrent requests', async () => {
    const who = await serveHere();
    const keys = await Promise.all([1, 2, 3, 4].map(() => newKey()));
    const calls = Array.from({ length: 100 }, (_, index) => keys[index % keys.length] as (typeof keys)[number]);
    const answers = await Promise.all(calls.map(({ key }) => who.ask('any', bearer(key))));
    expect(answers.map(({ body }) => [body.caller.orgId, body.caller.keyId])).toEqual(calls.map(({ orgId, id }) => [orgId, id]));
  });
});

describe('a route that names none', () => {
  it('is open to everybody and looks up no key', async () => {
    const who = await serveHere();
    const { key } = await newKey();
    const statements = watchStatements();
    for (const authorization of [undefined, 'nonsense', bearer(key), bearer(aKeyOfNobody())]) {
      expect(await who.ask('open', authorization)).toMatchObject({ status: 200, body: { caller: null } });
    }
    expect(statements).toEqual([]);
  });
});

describe('credentials', () => {
  const broken = (key: string) => key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');

  it.each<[string, string, (key: string) => string | undefined]>([
    ['none', 'MISSING', () => undefined],
    ['an empty header', 'MISSING', () => ' '],
    ['another scheme', 'MALFORMED', (key) => `Basic ${key}`],
    ['no scheme', 'MALFORMED', (key) => key],
    ['no key', 'MALFORMED', () => 'Bearer'],
    ['two keys', 'MALFORMED', (key) => `Bearer ${key} ${key}`],
    ['a wrong checksum', 'MALFORMED', (key) => bearer(broken(key))],
    ['a key cut short', 'MALFORMED', (key) => bearer(key.slice(0, -5))],
    ['a key of another system', 'MALFORMED', () => `Bearer ghp_${'a'.repeat(36)}`],
    ['a very long key', 'MALFORMED', () => `Bearer mr_${'a'.repeat(8_000)}`],
  ])('that are %s are refused before any lookup [GA-6.18]', async (_, reason, write) => {
    const who = await serveHere();
    const { key } = await newKey();
    const statements = watchStatements();
    const { status, body, headers } = await who.ask('any', write(key));
    expect(status).toBe(401);
    expect(body).toMatchObject({ code: 'UNAUTHORIZED', details: [{ field: 'authorization', code: reason }] });
    expect(headers.get('www-authenticate')).toBe('Bearer realm="millrace"');
    expect(statements).toEqual([]);
  });

  it('that do not exist, and a wrong secret for a known key, get the same answer [GA-6.18]', async () => {
    const who = await serveHere();
    const { key } = await newKey();
    expect((await who.ask('any', bearer(key))).status).toBe(200);
    const [nobodys, forged] = [await who.ask('any', bearer(aKeyOfNobody())), await who.ask('any', bearer(forge(key)))];
    for (const { status, body } of [nobodys, forged]) {
      expect(status).toBe(401);
      expect(body).toMatchObject({ code: 'UNAUTHORIZED', details: [{ code: 'UNKNOWN' }] });
    }
    expect(forged.body.message).toBe(nobodys.body.message);
    expect((await who.ask('any', bearer(key))).status).toBe(200);
  });

  it('that expired are refused with 401, also while the key is remembered [GA-6.18]', async () => {
    const [moveClock, letPass] = [await stopClock(ledger), stopTime()];
    const who = await serveHere();
    const orgId = await ledger.newOrg();
    // Less than the time for which a node remembers a key.
    const lifetimeMs = 2_000;
    const { key } = await createKey(ledger.db, { orgId, lifetimeMs });
    expect((await who.ask('any', bearer(key))).status).toBe(200);
    await moveClock(lifetimeMs);
    letPass(lifetimeMs);
    expect(await who.ask('any', bearer(key))).toMatchObject({
      status: 401,
      body: { code: 'UNAUTHORIZED', details: [{ code: 'EXPIRED' }] },
    });
    const other = await serveHere();
    expect((await other.ask('any', bearer(key))).status).toBe(401);
  });

  it('that were revoked are refused with 403, and with 401 when the secret is wrong [GA-6.19]', async () => {
    const who = await serveHere();
    const { key, id } = await newKey();
    await revokeKey(ledger.db, { keyId: id });
    const { status, body } = await who.ask('any', bearer(key));
    expect(status).toBe(403);
    expect(body).toMatchObject({ code: 'FORBIDDEN', details: [{ code: 'REVOKED' }] });
    expect((await who.ask('any', bearer(forge(key)))).status).toBe(401);
  });

  it('may name the scheme in any case', async () => {
    const who = await serveHere();
    const { key } = await newKey();
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      expect((await who.ask('any', `${scheme} ${key}`)).status).toBe(200);
    }
  });

  it('are not repeated in any answer', async () => {
    const who = await serveHere();
    const { key } = await newKey(['jobs:read']);
    for (const authorization of [bearer(key), bearer(broken(key)), bearer(forge(key))]) {
      const { body } = await who.ask('operator', authorization);
      expect(JSON.stringify(body)).not.toContain(key.slice(17, 40));
      expect(JSON.stringify(body)).not.toContain(authorization.slice(25, 60));
    }
  });
});
