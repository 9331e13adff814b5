import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { unless } from './folder-errors.ts';
import { FOLDER_MODE } from './folder-files.ts';

/**
 * Makes entries of folders durable. A flush that began before an entry was written does not cover it, so callers that arrive during
 * a flush share the next one. With 16 writers in one folder, one flush serves about 15 of them.
 */
export class FolderSync {
  readonly #flushes = new Map<string, { running: Promise<void>; next: Promise<void> | null }>();

  /** A folder that was removed in the meantime needs no flush. */
  flush(folder: string): Promise<void> {
    const flush = this.#flushes.get(folder);
    if (flush === undefined) return this.#start(folder);
    flush.next ??= flush.running.catch(() => undefined).then(() => this.#start(folder));
    return flush.next;
  }

  /** Creates a folder and those above it, down from `root`, which exists. */
  async createFolder(folder: string, root: string): Promise<void> {
    const created = await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
    if (created === undefined) return;
    const folders: string[] = [];
    for (let each = folder; each.length >= created.length && each.length > root.length; each = dirname(each)) folders.push(dirname(each));
    await Promise.all(folders.map((each) => this.flush(each)));
  }

  #start(folder: string): Promise<void> {
    const running = flushNow(folder).finally(() => {
      if (this.#flushes.get(folder)?.next === null) this.#flushes.delete(folder);
    });
    this.#flushes.set(folder, { running, next: null });
    return running;
  }
}

async function flushNow(folder: string): Promise<void> {
  const handle = await unless(['ENOENT', 'ENOTDIR'], open(folder, 'r'));
  if (handle === null) return;
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
