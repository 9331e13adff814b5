import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { collect, digest } from './bytes.ts';
import { BUCKET, KEY, NEW_BYTES, NEW_METADATA, OLD_BYTES, OLD_METADATA, TOGETHER, UPLOAD_ID } from './crashing-writer-words.ts';

const name = { bucket: BUCKET, key: KEY };
const TOMORROW = new Date(Date.now() + 86_400_000);
const AT_ONCE = 3;
/** Each test starts about 30 processes, one after the other. Alone on the machine this takes 7 seconds. */
const PATIENCE = { timeout: 300_000 };

type Call = 'put' | 'stream' | 'together' | 'upload';

interface Run {
  readonly root: string;
  readonly store: FolderStore;
  /** What the writer reported; null if it was killed. */
  readonly said: string | null;
}

async function run(params: { call: Call; ending: 'kill' | 'full'; step: number }): Promise<Run> {
  const root = await mkdtemp(join(tmpdir(), 'objects-crash-'));
  const store = new FolderStore(root);
  await store.put(name, OLD_BYTES, { metadata: OLD_METADATA });
  const args = [root, params.call, params.ending, `${params.step}`];
  const execArgv = ['--import', new URL('./crashing-steps.ts', import.meta.url).href];
  const child: ChildProcess = fork(new URL('./crashing-writer.ts', import.meta.url), args, { execArgv });
  let said: string | null = null;
  child.on('message', (message) => {
    said = String(message);
  });
  await once(child, 'close');
  return { root, store, said };
}

/** Repeats the writer with every step until it gets to its end, and returns how many steps it has. */
async function atEveryStep(call: Call, ending: 'kill' | 'full', look: (run: Run, step: number) => Promise<void>): Promise<number> {
  for (let first = 1; ; first += AT_ONCE) {
    const ends = await Promise.all(
      Array.from({ length: AT_ONCE }, async (_, index) => {
        const step = first + index;
        const result = await run({ call, ending, step });
        await look(result, step);
        await rm(result.root, { recursive: true });
        return result.said === 'done';
      }),
    );
    if (ends.every(Boolean)) return first;
  }
}

/** The object is the old or the new one, whole and with its own description, and the list says the same. */
async function expectWhole(store: FolderStore, newBytes: Uint8Array): Promise<'old' | 'new'> {
  const found = await store.get(name);
  const bytes = await collect(found!.body);
  const version = found!.info.metadata.get('version') as 'old' | 'new';
  expect(digest(bytes)).toBe(digest(version === 'old' ? OLD_BYTES : newBytes));
  expect((await store.list({ bucket: BUCKET, prefix: '', limit: 10 })).items).toMatchObject([{ key: KEY, size: bytes.length }]);
  return version;
}

/** The keys of the objects, each of which has the bytes and the description that were written together. */
async function wholeOf(store: FolderStore): Promise<string[]> {
  const { items } = await store.list({ bucket: BUCKET, prefix: '', limit: 10 });
  for (const { key } of items) {
    const found = await store.get({ bucket: BUCKET, key });
    const version = found!.info.metadata.get('version');
    expect(version === 'old' ? KEY : version).toBe(key);
    expect(digest(await collect(found!.body))).toBe(digest(version === 'old' ? OLD_BYTES : NEW_BYTES.subarray(0, 1_000)));
  }
  return items.map(({ key }) => key).sort();
}

/** The names of all files, without the versions in them. */
const filesIn = (root: string): string[] =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .flatMap((entry) => (entry.isFile() ? [entry.name.replace(/-[0-9a-z]+-[0-9a-z]+$/, '')] : []))
    .sort();

describe('a writer that is killed', PATIENCE, () => {
  it.each(['put', 'stream'] as const)(
    'leaves the old or the new object at every step of a %s, and a sweep leaves no other file',
    async (call) => {
      const seen = new Set<string>();
      const steps = await atEveryStep(call, 'kill', async ({ store, root, said }) => {
        const version = await expectWhole(store, NEW_BYTES.subarray(0, 100_000));
        if (said === 'done') expect(version).toBe('new');
        seen.add(version);
        await store.sweepUploads({ bucket: BUCKET, before: TOMORROW, limit: 100 });
        expect(await expectWhole(store, NEW_BYTES.subarray(0, 100_000))).toBe(version);
        expect(filesIn(root)).toEqual(['.%meta-object', 'object']);
      });
      expect(steps).toBeGreaterThan(9);
      expect(seen).toEqual(new Set(['old', 'new']));
    },
  );

  it('leaves each of several objects whole that are written together, and a sweep leaves no other file', async () => {
    const seen = new Set<number>();
    await atEveryStep('together', 'kill', async ({ store, root, said }) => {
      const visible = await wholeOf(store);
      expect(visible).toContain(KEY);
      if (said === 'done') expect(visible).toEqual([...TOGETHER].sort());
      seen.add(visible.length);
      await store.sweepUploads({ bucket: BUCKET, before: TOMORROW, limit: 100 });
      expect(await wholeOf(store)).toEqual(visible);
      const names = visible.map((key) => key.replace('folder/', ''));
      expect(filesIn(root)).toEqual([...names.map((each) => `.%meta-${each}`), ...names].sort());
    });
    expect(seen).toEqual(new Set([1, 2, 3]));
  });

  it('leaves an upload that another process continues, at every step', async () => {
    const offsets = new Set<number>();
    await atEveryStep('upload', 'kill', async ({ store, root, said }) => {
      const version = await expectWhole(store, NEW_BYTES);
      if (said === 'done') expect(version).toBe('new');
      const upload = await store.upload(name, { uploadId: UPLOAD_ID, metadata: NEW_METADATA });
      offsets.add(upload.offset);
      expect(digest(await collect(upload.stored()))).toBe(digest(NEW_BYTES.subarray(0, upload.offset)));
      await upload.write(NEW_BYTES.subarray(upload.offset));
      await upload.complete();
      expect(await expectWhole(store, NEW_BYTES)).toBe('new');
      await store.sweepUploads({ bucket: BUCKET, before: TOMORROW, limit: 100 });
      expect(filesIn(root)).toEqual(['.%meta-object', 'object']);
    });
    expect([...offsets].sort()).toEqual([0, 8 * 1024 * 1024]);
  });
});

describe('a disk that becomes full', PATIENCE, () => {
  it.each(['put', 'stream', 'upload'] as const)('answers %s with STORE_FULL at every step, and keeps the old object', async (call) => {
    const answers = new Set<string | null>();
    const newBytes = call === 'upload' ? NEW_BYTES : NEW_BYTES.subarray(0, 100_000);
    await atEveryStep(call, 'full', async ({ store, said }) => {
      answers.add(said);
      const version = await expectWhole(store, newBytes);
      if (said === 'done') expect(version).toBe('new');
    });
    expect(answers).toEqual(new Set(['STORE_FULL', 'done']));
  });
});
