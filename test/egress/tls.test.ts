import { afterEach, expect, test } from 'vitest';
import { openCanaries } from './canaries.ts';
import { makeCertificate } from './certificates.ts';
import { localEgress, namesOf, request } from './local-egress.ts';
import { answerWith, type Origin, openOrigin } from './origin.ts';

const resolver = namesOf({ 'secure.test': ['127.0.0.1'], 'other.test': ['127.0.0.1'] });

let origin: Origin | undefined;
afterEach(() => origin?.close());

async function serving(hosts: readonly string[], tls: object = {}) {
  const certificate = makeCertificate(hosts);
  origin = await openOrigin(() => answerWith(200, {}, 'secret'), { tls: { ...certificate, ...tls } });
  return { port: origin.port, egress: localEgress({ resolver, tls: { ca: certificate.cert } }) };
}

test('a certificate for the name of the URL is accepted', async () => {
  const names: unknown[] = [];
  const SNICallback = (name: string, done: (error: null) => void) => {
    names.push(name);
    done(null);
  };
  const { egress, port } = await serving(['secure.test'], { SNICallback });
  const answer = await egress.fetch(request(`https://secure.test:${port}/`));
  expect(answer).toMatchObject({ kind: 'answered', status: 200, address: '127.0.0.1' });
  expect(names).toEqual(['secure.test']);
});

test('a certificate for the address of the URL is accepted', async () => {
  const { egress, port } = await serving(['127.0.0.1']);
  expect(await egress.fetch(request(`https://127.0.0.1:${port}/`))).toMatchObject({ kind: 'answered' });
});

test.each([
  ['another name', ['secure.test'], 'other.test'],
  ['a name while the URL has an address', ['secure.test', 'localhost'], '127.0.0.1'],
  ['the address while the URL has a name', ['127.0.0.1'], 'secure.test'],
])('a certificate for %s is refused', async (_, hosts, host) => {
  const { egress, port } = await serving(hosts);
  expect(await egress.fetch(request(`https://${host}:${port}/`))).toMatchObject({ kind: 'failed', code: 'TLS' });
  expect(origin?.seen()).toEqual([]);
});

test('a certificate of an authority that nobody knows is refused', async () => {
  const { port } = await serving(['secure.test']);
  const answer = await localEgress({ resolver }).fetch(request(`https://secure.test:${port}/`));
  expect(answer).toMatchObject({ kind: 'failed', code: 'TLS' });
});

test('TLS before 1.2 is refused', async () => {
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' };
  const { egress, port } = await serving(['secure.test'], old);
  expect(await egress.fetch(request(`https://secure.test:${port}/`))).toMatchObject({ kind: 'failed', code: 'TLS' });
});

test('a server that speaks plain HTTP is a failure of TLS', async () => {
  const plain = await openCanaries();
  const answer = await localEgress({ resolver }).fetch(request(`https://secure.test:${plain.port}/`));
  await plain.close();
  expect(answer).toMatchObject({ kind: 'failed', code: 'TLS' });
});

test('each request makes a handshake of its own', async () => {
  const { egress, port } = await serving(['secure.test']);
  for (let n = 0; n < 2; n++) await egress.fetch(request(`https://secure.test:${port}/`));
  expect(origin?.accepted()).toBe(2);
});
