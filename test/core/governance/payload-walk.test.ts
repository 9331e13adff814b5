import { describe, expect, it } from 'vitest';
import { PayloadWalk } from '../../../src/core/governance/payload-walk.ts';
import { SECRET_MEMBERS } from '../../../src/core/governance/secret-members.ts';

function walked(payload: object, work?: number) {
  const walk = new PayloadWalk(payload);
  let steps = 1;
  while (!walk.step(work)) steps++;
  return { hash: walk.digest(), issues: walk.issues, steps };
}

const hashOf = (payload: object): string => walked(payload).hash;
const fieldsOf = (payload: object): string[] => walked(payload).issues.map(({ field }) => field);

describe('the hash of a payload', () => {
  it('does not depend on the order of members, at any depth [AB-idem.06] [AB-idem.07]', () => {
    expect(hashOf({ a: 1, b: { c: [{ x: 1, y: 2 }], d: null } })).toBe(hashOf({ b: { d: null, c: [{ y: 2, x: 1 }] }, a: 1 }));
    expect(hashOf({ a: [1, 2] })).not.toBe(hashOf({ a: [2, 1] }));
  });

  it('is the same for one instant in several notations [AB-idem.08]', () => {
    const at = hashOf({ at: '2024-01-15T10:30:00.000Z' });
    for (const other of ['2024-01-15T10:30:00Z', '2024-01-15T11:30:00+01:00', '2024-01-15 10:30Z', '2024-01-15t05:00:00.0000-05:30'])
      expect(hashOf({ at: other })).toBe(at);
    for (const other of ['2024-01-15T10:30:00.001Z', '2024-01-15', '2024-02-30T10:30:00Z', 'at 2024-01-15T10:30:00Z'])
      expect(hashOf({ at: other })).not.toBe(at);
  });

  it('tells apart what JSON tells apart', () => {
    const values = [1, '1', true, 'true', null, 'null', '', [], {}, [null], { a: null }, 1e21, '1e21', '\u00e9', 'e\u0301', '\u2028'];
    expect(new Set(values.map((value) => hashOf({ value }))).size).toBe(values.length);
    expect(hashOf({ 'a:1,"b"': 1 })).not.toBe(hashOf({ a: 1, b: 1 }));
  });

  it('is computed in steps with the same result, for many members and for deep payloads', () => {
    const wide = JSON.parse(`{${Array.from({ length: 50_000 }, (_, n) => `"m${(n * 7_919) % 50_000}":${n}`).join(',')}}`);
    const inSteps = walked(wide, 100_000);
    expect(inSteps.steps).toBeGreaterThan(10);
    expect(inSteps.hash).toBe(walked(wide).hash);
    expect(inSteps.hash).toBe(hashOf(Object.fromEntries(Object.entries(wide).toReversed())));
    let deep: object = { token: 1 };
    for (let level = 0; level < 20_000; level++) deep = level % 2 === 0 ? { a: deep } : { list: [deep] };
    expect(walked(deep, 1_000)).toEqual({ ...walked(deep), steps: expect.any(Number) });
    expect(fieldsOf(deep)[0]).toMatch(/^payload(\.list\[0\]\.a){3}/);
  });

  it('treats names that JavaScript inherits as ordinary names', () => {
    const hostile = JSON.parse('{"__proto__": {"a": 1}, "constructor": 2, "toString": [3]}');
    expect(hashOf(hostile)).toBe(hashOf(JSON.parse('{"toString": [3], "constructor": 2, "__proto__": {"a": 1}}')));
    expect(hashOf(hostile)).not.toBe(hashOf(JSON.parse('{"constructor": 2, "toString": [3]}')));
    expect(fieldsOf(JSON.parse('{"__proto__": {"password": 1}}'))).toEqual(['payload.__proto__.password']);
  });
});

describe('a secret in a payload', () => {
  it.each(SECRET_MEMBERS)('%s is found in every spelling [AB-sec.05]', (name) => {
    const bare = name.replaceAll('_', '');
    for (const spelled of [name, name.toUpperCase(), bare, bare.split('').join('-'), `_${bare}_`, name.replace('_', '-')])
      expect(walked({ [spelled]: '' }).issues).toMatchObject([{ field: `payload.${spelled}`, code: 'SECRET_IN_PAYLOAD' }]);
  });

  it('is found at any depth, in objects and arrays, and named by its path', () => {
    const payload = { mail: { headers: [{}, { Authorization: 'x' }] }, list: [[{ 'api-key': { secret: 1 } }]] };
    expect(fieldsOf(payload)).toEqual([
      'payload.list[0][0].api-key',
      'payload.list[0][0].api-key.secret',
      'payload.mail.headers[1].Authorization',
    ]);
  });

  it('is not found where the name only contains one of the words, or is a value', () => {
    expect(fieldsOf({ tokens: 1, password_hint: 1, secretary: 1, cookies: 1, keys: ['password', 'token'], '': 1 })).toEqual([]);
  });

  it('ends the walk after the twentieth', () => {
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`m${n}`, { password: n }]));
    expect(walked(many).issues).toHaveLength(20);
  });
});
