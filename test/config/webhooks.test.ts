import { describe, expect, it } from 'vitest';
import { refusalOf } from '../../src/core/address-policy.ts';
import { parseIp } from '../../src/core/ip-address.ts';
import { configOf, refusal } from './environment.ts';

const DAY = 86_400_000;

describe('the settings of webhooks', () => {
  it('have defaults', () => {
    expect(configOf().webhooks).toEqual({
      ...{ timeoutMs: 10_000, maxRetries: 5, backoff: { initialMs: 1_000, maxMs: 300_000 } },
      ...{ concurrency: 256, disableAfterMs: 5 * DAY, secretOverlapMs: DAY, verifies: true, hostRate: 50 },
    });
  });

  it('can all be set', () => {
    const environment = {
      ...{ MILLRACE_WEBHOOKS_TIMEOUT: '2s', MILLRACE_WEBHOOKS_MAX_RETRIES: '0' },
      ...{ MILLRACE_WEBHOOKS_BACKOFF_BASE: '10ms', MILLRACE_WEBHOOKS_BACKOFF_MAX: '1m' },
      ...{ MILLRACE_WEBHOOKS_CONCURRENCY: '8', MILLRACE_WEBHOOKS_DISABLE_AFTER: '1h' },
      ...{ MILLRACE_WEBHOOKS_SECRET_OVERLAP: '0s', MILLRACE_WEBHOOKS_VERIFY: 'false', MILLRACE_WEBHOOKS_HOST_RATE: '7' },
    };
    expect(configOf(environment).webhooks).toEqual({
      ...{ timeoutMs: 2_000, maxRetries: 0, backoff: { initialMs: 10, maxMs: 60_000 } },
      ...{ concurrency: 8, disableAfterMs: 3_600_000, secretOverlapMs: 0, verifies: false, hostRate: 7 },
    });
  });

  it.each([
    ['MILLRACE_WEBHOOKS_MAX_RETRIES', '21', 'webhooks.max_retries'],
    ['MILLRACE_WEBHOOKS_TIMEOUT', '0s', 'webhooks.timeout'],
    ['MILLRACE_WEBHOOKS_BACKOFF_MAX', '10ms', 'webhooks.backoff_max must not be less than webhooks.backoff_base'],
    ['MILLRACE_WEBHOOKS_RETRIES', '3', 'webhooks.retries is not known'],
  ])('refuse %s=%s', (name, value, sentence) => {
    expect(refusal({ [name]: value })).toContain(sentence);
  });
});

describe('the settings of outgoing calls', () => {
  it('allow only public addresses by default', () => {
    const { policy, ...rest } = configOf().egress;
    expect(policy).toEqual({ allow: [], targets: [] });
    expect(rest).toEqual({ connectTimeoutMs: 10_000, dnsTimeoutMs: 5_000 });
  });

  it('open ranges and single places of this machine', () => {
    const { policy } = configOf({
      MILLRACE_EGRESS_ALLOW: '10.1.0.0/16, fd00::/8',
      MILLRACE_EGRESS_TARGETS: '127.0.0.1:9000,[::1]:9000',
    }).egress;
    const refused = (ip: string, port: number) => refusalOf(parseIp(ip)!, port, policy);
    expect([refused('10.1.2.3', 80), refused('fd00::1', 443)]).toEqual([null, null]);
    expect([refused('127.0.0.1', 9000), refused('::1', 9000)]).toEqual([null, null]);
    expect([refused('10.2.0.1', 80), refused('127.0.0.1', 9001)]).toEqual(['private network', 'loopback']);
  });

  it.each(['10.1.0.1/16', '10.0.0.0/33', 'localhost', '10.0.0'])('refuse %s as a range', (text) => {
    expect(refusal({ MILLRACE_EGRESS_ALLOW: text })).toContain(`"${text}" is not one`);
  });

  it.each(['127.0.0.1', '127.0.0.1:0', '127.0.0.1:65536', '10.0.0.1:80', '::1:9000', 'localhost:9000'])(
    'refuse %s as a place of this machine',
    (text) => {
      expect(refusal({ MILLRACE_EGRESS_TARGETS: text })).toContain(`"${text}" is not one`);
    },
  );

  it('do not open local addresses to clients of a server that others can reach', () => {
    const targets = { MILLRACE_EGRESS_TARGETS: '127.0.0.1:9000' };
    for (const host of ['127.0.0.1', '::1', 'localhost'])
      expect(configOf({ ...targets, MILLRACE_SERVER_HOST: host }).egress.policy.targets).toEqual(['127.0.0.1:9000']);
    for (const host of ['0.0.0.0', '::', '10.0.0.5', 'example.com'])
      expect(refusal({ ...targets, MILLRACE_SERVER_HOST: host })).toContain('egress.targets');
  });
});
