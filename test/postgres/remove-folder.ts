import { readdir, rm } from 'node:fs/promises';
import { isPostmasterOf, readPostmaster } from '../../src/postgres/postmaster.ts';
import { until } from '../until.ts';

/** A server that was left behind is known by its data folder, and ended before the folder goes. */
export async function removeFolder(path: string): Promise<void> {
  for (const dataFolder of await findDataFolders(path)) {
    const postmaster = readPostmaster(dataFolder);
    if (postmaster === null || !(await isPostmasterOf(postmaster.pid, dataFolder))) continue;
    process.kill(postmaster.pid, 'SIGQUIT');
    await until('the server has stopped', async () => !(await isPostmasterOf(postmaster.pid, dataFolder)));
  }
  await rm(path, { recursive: true, force: true, maxRetries: 10 });
}

async function findDataFolders(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.name === 'postmaster.pid').map((entry) => entry.parentPath);
}
