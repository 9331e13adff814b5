import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { Millrace } from '../../src/library/millrace.ts';
import type { ObjectsOption } from '../../src/library/objects-option.ts';
import { useLedger } from '../ledger/fixture.ts';

const ledger = useLedger();

async function open(objects?: ObjectsOption): Promise<Millrace> {
  const millrace = await Millrace.open({ database: ledger.db.url, ...(objects === undefined ? {} : { objects }) });
  onTestFinished(() => millrace.close({ grace: 0 }));
  return millrace;
}

test('handlers of a program keep files in the folder that it names', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'library-objects-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const millrace = await open({ folder, bucket: 'files', maxBytes: 10, retention: '1d' });
  millrace.register({ type: 'export', handler: (context, { text }: { text: string }) => context.artifacts.write('a.txt', text) });
  millrace.register({ type: 'own', handler: async (context) => (await context.artifacts.list()).length });
  await millrace.start();
  const [small, large, own] = await Promise.all(
    [
      { type: 'export', payload: { text: '0123456789' } },
      { type: 'export', payload: { text: '0123456789+' }, maxAttempts: 1 },
      { type: 'own', payload: {} },
    ].map(async (submission) => millrace.waitFor((await millrace.submit(submission)).jobId)),
  );
  expect(small?.result?.output).toMatchObject({ name: 'a.txt', size: 10 });
  expect(large?.lastFailure?.message).toContain('at most 10 bytes');
  expect(own?.result?.output).toBe(0);
});

test('without a folder, a handler learns which option to give', async () => {
  const millrace = await open();
  millrace.register({ type: 'homeless', handler: (context) => context.artifacts.write('a.txt', 'x') });
  await millrace.start();
  const { jobId } = await millrace.submit({ type: 'homeless', payload: {}, maxAttempts: 1 });
  expect((await millrace.waitFor(jobId)).lastFailure?.message).toContain('Open Millrace with the option objects: { folder:');
});

test.each([
  [{}, 'must have either folder or s3'],
  [{ folder: 'a', s3: { accessKey: 'a', secretKey: 'b' } }, 'must have either folder or s3'],
  [{ folder: '' }, 'must be the path of a folder'],
  [{ folder: 'a', max: 1 }, 'max'],
  [{ folder: 'a', maxBytes: 0 }, 'must be an integer of at least 1'],
  [{ folder: 'a', retention: 'long' }, 'objects.retention'],
  [{ s3: { accessKey: 'a' } }, 'objects.s3.secretKey'],
  ['objects', 'must be an object'],
])('the option objects cannot be %j', async (objects, message) => {
  const error = await open(objects as ObjectsOption).catch((cause: unknown) => cause);
  expect(isAppError(error, 'INVALID_CONFIG')).toBe(true);
  expect((error as Error).message).toContain(message);
});
