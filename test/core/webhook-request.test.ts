import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PUBLIC_ONLY } from '../../src/core/address-policy.ts';
import { parseRange } from '../../src/core/ip-address.ts';
import { SUBSCRIBABLE } from '../../src/core/public-events.ts';
import { checkWebhook, checkWebhookUpdate } from '../../src/core/webhook-request.ts';

const URL_OF_ONE = 'https://example.com/hook';

describe('a webhook as it is kept', () => {
  it('has its URL in one spelling, its events once each and sorted', () => {
    const given = {
      url: 'HTTPS://Example.COM:443/a/../hook#part',
      events: ['job.failed', 'job.created', 'job.failed'],
    };
    expect(checkWebhook(given, PUBLIC_ONLY)).toEqual({
      ok: true,
      webhook: { url: URL_OF_ONE, events: ['job.created', 'job.failed'], description: null },
    });
  });

  it('is the same whatever the order and number of its events', () => {
    const names = fc.uniqueArray(fc.constantFrom(...SUBSCRIBABLE), { minLength: 1 });
    fc.assert(
      fc.property(names, fc.infiniteStream(fc.nat()), (events, draws) => {
        const shuffled = [...events, ...events].sort(() => (draws.next().value % 3) - 1);
        const checked = [events, shuffled].map((each) => checkWebhook({ url: URL_OF_ONE, events: each }, PUBLIC_ONLY));
        expect(checked[0]).toMatchObject({ ok: true });
        expect(checked[1]).toEqual(checked[0]);
      }),
    );
  });

  it('may be on an address that is opened', () => {
    const given = { url: 'http://127.0.0.1:4000/', events: ['*'] };
    const policy = { allow: [parseRange('127.0.0.0/8')!], targets: [] };
    expect(checkWebhook(given, PUBLIC_ONLY)).toMatchObject({
      ok: false,
      issues: [{ field: 'url', code: 'FORBIDDEN_ADDRESS' }],
    });
    expect(checkWebhook(given, policy)).toMatchObject({ ok: true });
  });

  it('is refused when its URL is too long once it is written out', () => {
    const url = `https://example.com/${'ü'.repeat(1_000)}`;
    expect(checkWebhook({ url, events: ['*'] }, PUBLIC_ONLY)).toMatchObject({
      ok: false,
      issues: [{ field: 'url', code: 'TOO_LONG' }],
    });
  });
});

describe('a change of a webhook', () => {
  it('has only what is given; null and nothing clear a description', () => {
    expect(checkWebhookUpdate({}, PUBLIC_ONLY)).toEqual({ ok: true, webhook: {} });
    expect(checkWebhookUpdate({ enabled: false }, PUBLIC_ONLY)).toEqual({ ok: true, webhook: { enabled: false } });
    for (const description of [null, '']) {
      expect(checkWebhookUpdate({ description }, PUBLIC_ONLY)).toEqual({ ok: true, webhook: { description: null } });
    }
  });

  it('is told everything that is wrong with it', () => {
    const checked = checkWebhookUpdate({ url: 'x', events: [], description: 'a\0' }, PUBLIC_ONLY);
    const fields = checked.ok ? [] : checked.issues.map(({ field }) => field);
    expect(fields).toEqual(['url', 'events', 'description']);
  });
});
