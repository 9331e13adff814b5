import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AddressPolicy, PUBLIC_ONLY } from '../../src/core/address-policy.ts';
import { parseRange } from '../../src/core/ip-address.ts';
import { localhostAddresses, readTargetUrl } from '../../src/core/target-url.ts';

function codeOf(text: string, policy: AddressPolicy = PUBLIC_ONLY): string {
  const reading = readTargetUrl(text, policy);
  return reading.ok ? 'ok' : reading.refusal.code;
}

describe('a URL that may be called', () => {
  test.each([
    ['https://example.com/hook?a=b', 'https://example.com/hook?a=b', 'example.com', 443, true],
    ['http://example.com', 'http://example.com/', 'example.com', 80, false],
    ['HTTPS://Example.COM:8443/a', 'https://example.com:8443/a', 'example.com', 8443, true],
    ['http://example.com./x#secret', 'http://example.com/x', 'example.com', 80, false],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/', 'xn--bcher-kva.example', 443, true],
    ['http://my_host.example/', 'http://my_host.example/', 'my_host.example', 80, false],
    ['http://93.184.216.34:8080/', 'http://93.184.216.34:8080/', '93.184.216.34', 8080, false],
    ['https://[2606:4700:0::1111]/', 'https://[2606:4700::1111]/', '2606:4700::1111', 443, true],
    ['https://example.com/%20%5c', 'https://example.com/%20%5c', 'example.com', 443, true],
  ])('%s is read', (text, href, host, port, isSecure) => {
    const reading = readTargetUrl(text, PUBLIC_ONLY);
    if (!reading.ok) throw new Error(reading.refusal.message);
    const { url, ...rest } = reading.target;
    expect({ href: url.href, ...rest, literal: rest.literal !== null }).toEqual({
      ...{ href, host, port, isSecure },
      literal: /^[\d.]+$|:/.test(host),
    });
  });
});

describe('a URL that may not be called', () => {
  test.each([
    ['', 'INVALID_URL'],
    ['hook', 'INVALID_URL'],
    ['http:example.com', 'INVALID_URL'],
    ['http:///example.com', 'INVALID_URL'],
    ['http://exa mple.com', 'INVALID_URL'],
    ['http://example.com/\n', 'INVALID_URL'],
    ['http://example.com\\x', 'INVALID_URL'],
    ['http://example.com/\ud800', 'INVALID_URL'],
    [`http://example.com/${'a'.repeat(2_030)}`, 'INVALID_URL'],
    ['http://example.com:65536/', 'INVALID_URL'],
    ['ftp://example.com/', 'SCHEME'],
    ['javascript:alert(1)', 'SCHEME'],
    ['localhost:3000', 'SCHEME'],
    ['http://user@example.com/', 'CREDENTIALS'],
    ['http://:secret@example.com/', 'CREDENTIALS'],
    ['http://example.com:22/', 'PORT'],
    ['http://example.com:0/', 'PORT'],
    ['http://example.com:10080/', 'PORT'],
    ['http://example..com/', 'HOST'],
    [`http://${'a'.repeat(64)}.com/`, 'HOST'],
    [`http://${'abcd.'.repeat(51)}com/`, 'HOST'],
    ['http://a+b.example/', 'HOST'],
    ['http://127.0.0.1/', 'ADDRESS'],
    ['http://[::1]/', 'ADDRESS'],
    ['http://localhost/', 'ADDRESS'],
    ['http://a.localhost./', 'ADDRESS'],
  ])('%j is refused: %s [FR-14.18]', (text, code) => {
    expect(codeOf(text)).toBe(code);
  });

  test('every message says something and none repeats a secret', () => {
    const reading = readTargetUrl('https://someone:hunter2@example.com/', PUBLIC_ONLY);
    expect(reading.ok ? '' : reading.refusal.message).toMatch(/user name or a password/);
    expect(JSON.stringify(reading)).not.toContain('hunter2');
  });

  test('no text whatever makes it throw, and what it accepts it accepts again unchanged', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.webUrl({ validSchemes: ['http', 'https', 'ftp'] }),
      fc.string().map((s) => `http://${s}`),
    );
    fc.assert(
      fc.property(text, (candidate) => {
        const reading = readTargetUrl(candidate, PUBLIC_ONLY);
        if (!reading.ok) return;
        const again = readTargetUrl(reading.target.url.href, PUBLIC_ONLY);
        expect(again.ok && again.target.url.href).toBe(reading.target.url.href);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe('opened ranges', () => {
  const both: AddressPolicy = { allow: [parseRange('127.0.0.0/8')!, parseRange('::1')!], targets: [] };
  const onlyV4: AddressPolicy = { allow: [parseRange('127.0.0.0/8')!], targets: [] };

  test('they open the address and nothing else', () => {
    expect(codeOf('http://127.0.0.1:3000/', both)).toBe('ok');
    expect(codeOf('http://[::1]:3000/', both)).toBe('ok');
    expect(codeOf('http://127.0.0.1:25/', both)).toBe('PORT');
    expect(codeOf('http://[::ffff:127.0.0.1]:3000/', both)).toBe('ADDRESS');
  });

  test('localhost is open when all that it means is open', () => {
    expect(codeOf('http://localhost:3000/', both)).toBe('ok');
    expect(codeOf('http://localhost:3000/', onlyV4)).toBe('ADDRESS');
  });

  test('names that only look like localhost are ordinary', () => {
    expect(['localhost', 'a.localhost'].every((name) => localhostAddresses(name) !== null)).toBe(true);
    expect(['notlocalhost', 'localhost.example.com'].every((name) => localhostAddresses(name) === null)).toBe(true);
  });
});
