import { generateKeyPairSync, sign } from 'node:crypto';
import { parseIp } from '../../src/core/ip-address.ts';

/** A certificate that is its own authority, with its key: both PEM. */
export type Certificate = { readonly cert: string; readonly key: string };

const TAG = {
  boolean: 1,
  integer: 2,
  bits: 3,
  octets: 4,
  oid: 6,
  text: 12,
  time: 24,
  sequence: 0x30,
  set: 0x31,
} as const;
const ECDSA_WITH_SHA256 = Buffer.from('2a8648ce3d040302', 'hex');
const COMMON_NAME = Buffer.from('550403', 'hex');
const BASIC_CONSTRAINTS = Buffer.from('551d13', 'hex');
const SUBJECT_ALT_NAME = Buffer.from('551d11', 'hex');
const TRUE = Buffer.from([0xff]);

/** Made anew for each run, so that no key lies in the repository and none expires there. */
export function makeCertificate(hosts: readonly string[]): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = der(TAG.sequence, der(TAG.oid, ECDSA_WITH_SHA256));
  const name = der(TAG.sequence, der(TAG.set, der(TAG.sequence, der(TAG.oid, COMMON_NAME), der(TAG.text, Buffer.from('test')))));
  const body = der(
    TAG.sequence,
    der(0xa0, der(TAG.integer, Buffer.from([2]))),
    der(TAG.integer, Buffer.from([1])),
    algorithm,
    name,
    der(TAG.sequence, time('20200101000000Z'), time('21000101000000Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(TAG.sequence, constraints(), altNames(hosts))),
  );
  const signature = der(TAG.bits, Buffer.from([0]), sign('sha256', body, privateKey));
  const base64 = der(TAG.sequence, body, algorithm, signature).toString('base64');
  const lines = base64.match(/.{1,64}/g)?.join('\n');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

function constraints(): Buffer {
  const isAuthority = der(TAG.sequence, der(TAG.boolean, TRUE));
  return der(TAG.sequence, der(TAG.oid, BASIC_CONSTRAINTS), der(TAG.boolean, TRUE), der(TAG.octets, isAuthority));
}

function altNames(hosts: readonly string[]): Buffer {
  const names = hosts.map((host) => {
    const address = parseIp(host);
    if (address === null) return der(0x82, Buffer.from(host));
    return der(0x87, Buffer.from(address.value.toString(16).padStart(address.version === 6 ? 32 : 8, '0'), 'hex'));
  });
  return der(TAG.sequence, der(TAG.oid, SUBJECT_ALT_NAME), der(TAG.octets, der(TAG.sequence, ...names)));
}

function time(text: string): Buffer {
  return der(TAG.time, Buffer.from(text));
}

function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const length = content.length;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
