import * as crypto from 'node:crypto';
import { expect, it, vi } from 'vitest';
import { isSameSecret, parseApiKey } from '../../src/core/api-key.ts';
import { KeyAuthenticator } from '../../src/http/shared/key-authenticator.ts';
import { createKey } from '../../src/services/access/create-key.ts';
import { useLedger } from '../ledger/fixture.ts';

vi.mock('node:crypto', { spy: true });

const ledger = useLedger();

it('secrets are compared by their hashes in constant time, for each request anew', async () => {
  const { key } = await createKey(ledger.db, { orgId: await ledger.newOrg() });
  const authenticator = new KeyAuthenticator({ database: ledger.db });
  const hash = parseApiKey(key)?.secretHash as Uint8Array;
  const compare = vi.mocked(crypto.timingSafeEqual);
  compare.mockClear();
  await authenticator.authenticate(`Bearer ${key}`);
  await authenticator.authenticate(`Bearer ${key}`);
  expect(compare.mock.calls).toHaveLength(2);
  for (const [given, stored] of compare.mock.calls) {
    expect(Buffer.from(given as Uint8Array)).toEqual(Buffer.from(hash));
    expect(Buffer.from(stored as Uint8Array)).toEqual(Buffer.from(hash));
  }
  expect(isSameSecret(hash, new Uint8Array(32))).toBe(false);
  expect(compare.mock.calls).toHaveLength(3);
});
