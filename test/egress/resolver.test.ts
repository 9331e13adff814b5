import { afterEach, expect, test } from 'vitest';
import { createResolver } from '../../src/egress/resolver.ts';
import { type DnsAnswers, type DnsServer, openDnsServer } from './dns-server.ts';

let dns: DnsServer | undefined;
afterEach(() => dns?.close());

async function asking(answers: DnsAnswers, dnsTimeoutMs = 10_000) {
  dns = await openDnsServer(answers);
  const resolver = createResolver({ dnsTimeoutMs, servers: [dns.address] });
  return (host: string, signal = new AbortController().signal) => resolver.resolve(host, signal);
}

test('both families are asked, once each, and every answer is given', async () => {
  const resolve = await asking(() => ['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  expect(await resolve('some.test')).toEqual(['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  expect(
    dns
      ?.queries()
      .map(({ type }) => type)
      .toSorted(),
  ).toEqual(['A', 'AAAA']);
});

test('nothing is remembered between two questions', async () => {
  const resolve = await asking((_, __, nth) => [`192.0.2.${nth}`]);
  expect([await resolve('some.test'), await resolve('some.test')]).toEqual([['192.0.2.0'], ['192.0.2.1']]);
});

test('a CNAME leads to the addresses behind it', async () => {
  const resolve = await asking(() => ['alias.test', 'real.test', '192.0.2.7']);
  expect(await resolve('some.test')).toEqual(['192.0.2.7']);
});

test('a name without addresses has none', async () => {
  expect(await (await asking(() => []))('some.test')).toEqual([]);
});

test('one family is enough when the other fails or is not answered', async () => {
  const failing = await asking((_, type) => (type === 'A' ? ['192.0.2.1'] : 'failure'));
  expect(await failing('some.test')).toEqual(['192.0.2.1']);
  await dns?.close();
  const silent = await asking((_, type) => (type === 'A' ? ['192.0.2.1'] : 'silence'), 6_000);
  expect(await silent('some.test')).toEqual(['192.0.2.1']);
});

test('a server that fails or says nothing is an error, and no name without addresses', async () => {
  await expect((await asking(() => 'failure'))('some.test')).rejects.toThrow();
  await dns?.close();
  await expect((await asking(() => 'silence', 100))('some.test')).rejects.toThrow();
});

test('the signal ends it', async () => {
  const caller = new AbortController();
  const reason = new Error('enough');
  const resolve = await asking(() => {
    caller.abort(reason);
    return 'silence';
  });
  await expect(resolve('some.test', caller.signal)).rejects.toBe(reason);
  await expect(resolve('some.test', caller.signal)).rejects.toBe(reason);
});

test('localhost is this machine, and no server is asked', async () => {
  const resolve = await asking(() => ['192.0.2.1']);
  for (const name of ['localhost', 'a.localhost']) expect(await resolve(name)).toEqual(['127.0.0.1', '::1']);
  expect(dns?.queries()).toEqual([]);
});
