import { beforeEach, describe, expect, it } from 'vitest';
import { OrgRateLimiter } from '../../src/http/shared/rate-limiter.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { useLedger } from '../ledger/fixture.ts';
import { serveWho } from './auth-fixture.ts';
import { moveIntoMinute } from './limits-fixture.ts';

const ledger = useLedger();
beforeEach(() => moveIntoMinute(ledger, 1_000));

async function serveLimited(requestsPerMinute: number) {
  const database = ledger.db;
  return serveWho({ database }, new OrgRateLimiter({ database, requestsPerMinute }));
}

async function newCaller(scopes: readonly string[] = ['jobs:read'], orgId?: string): Promise<string> {
  const { key } = await createKey(ledger.db, { orgId: orgId ?? (await ledger.newOrg()), scopes });
  return `Bearer ${key}`;
}

describe('within the limit', () => {
  it('every answer states the limit, the rest of it and when it resets', async () => {
    const who = await serveLimited(3);
    const caller = await newCaller();
    for (const left of [2, 1, 0]) {
      const { status, headers } = await who.ask('any', caller);
      expect(status).toBe(200);
      expect(headers.get('ratelimit-policy')).toBe('"requests_per_minute";q=3;w=60');
      expect(headers.get('ratelimit')).toMatch(new RegExp(`^"requests_per_minute";r=${left};t=([1-9]|[1-5]\\d|60)$`));
      expect(headers.get('retry-after')).toBeNull();
    }
  });

  it('open routes are not counted and say nothing', async () => {
    const who = await serveLimited(1);
    const caller = await newCaller();
    for (let call = 0; call < 5; call++) {
      const { status, headers } = await who.ask('open', caller);
      expect([status, headers.get('ratelimit')]).toEqual([200, null]);
    }
    expect((await who.ask('any', caller)).status).toBe(200);
  });

  it('refused credentials and scopes use nothing of it', async () => {
    const who = await serveLimited(1);
    const caller = await newCaller(['jobs:read']);
    for (let call = 0; call < 3; call++) {
      expect((await who.ask('operator', caller)).status).toBe(403);
      expect((await who.ask('any', 'Bearer nonsense')).status).toBe(401);
    }
    expect((await who.ask('any', caller)).status).toBe(200);
  });
});

describe('beyond the limit', () => {
  it('the answer is 429 with the limit, the usage, the maximum and when to come again [GA-6.17] [GA-1.31] [GA-1.32] [GA-1.33] [GA-1.34]', async () => {
    const who = await serveLimited(2);
    const caller = await newCaller();
    for (let call = 0; call < 2; call++) await who.ask('any', caller);
    const { status, body, headers } = await who.ask('any', caller);
    expect(status).toBe(429);
    expect(body).toMatchObject({
      code: 'QUOTA_EXCEEDED',
      quota: { limit: 'requests_per_minute', current: 2, maximum: 2 },
    });
    const seconds = Number(headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(body.quota.retryAfterMs).toBe(seconds * 1_000);
    expect(headers.get('ratelimit')).toBe(`"requests_per_minute";r=0;t=${seconds}`);
    expect(headers.get('ratelimit-policy')).toBe('"requests_per_minute";q=2;w=60');
  });

  it('all keys of the org are meant, and no key of another', async () => {
    const who = await serveLimited(4);
    const orgId = await ledger.newOrg();
    const [first, second, other] = [await newCaller(['jobs:read'], orgId), await newCaller(['jobs:cancel'], orgId), await newCaller()];
    const answers = await Promise.all(Array.from({ length: 10 }, (_, call) => who.ask('any', call % 2 ? first : second)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(4);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(6);
    expect((await who.ask('any', other)).status).toBe(200);
  });

  it('two servers let through what one would', async () => {
    const servers = [await serveLimited(30), await serveLimited(30)];
    const caller = await newCaller();
    const answers = await Promise.all(servers.flatMap((who) => Array.from({ length: 40 }, () => who.ask('any', caller))));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(30);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(50);
  });
});
