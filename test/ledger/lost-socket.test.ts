import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readClock } from '../../src/ledger/driver/clock.ts';
import { openDatabase } from '../../src/ledger/driver/database.ts';

it('a server whose Unix socket is gone is unavailable for now, as one that refuses connections is', async () => {
  const host = encodeURIComponent(join(tmpdir(), 'millrace-no-such-socket'));
  for (const url of [`postgres://postgres@${host}/millrace`, 'postgres://postgres@127.0.0.1:1/millrace']) {
    const database = openDatabase({ url });
    const expected = { code: 'UNAVAILABLE', message: 'The database does not respond.', retryAfterMs: 1_000 };
    await expect(readClock(database.api)).rejects.toMatchObject(expected);
    await database.close();
  }
});
