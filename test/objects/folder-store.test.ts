import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { describeStore } from './conformance.ts';

describeStore('a folder', async () => {
  const root = await mkdtemp(join(tmpdir(), 'objects-'));
  return { store: new FolderStore(root), bucket: 'conformance', end: () => rm(root, { recursive: true }) };
});
