/**
 * Decides where data and programs live. Normally in the home; but when root's home lies below a folder that only
 * root may enter (everything below /root, typically), the server's account could not reach it, so both move to a
 * shelter outside.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AppError } from '../core/errors.ts';
import { type Account, type AccountSource, chooseAccount } from './account.ts';
import { codeOf, failure } from './failure.ts';
import { type Home, readIfPresent, writeWhole } from './home.ts';
import { runTool } from './run-tool.ts';

export type Placement = { folder: string; dataFolder: string; account: Account | null };

export type PlacementParams = {
  home: Home;
  accounts: AccountSource;
  shelters: readonly string[];
  onNotice: (sentence: string) => void;
};

export const machineShelters: readonly string[] = ['/var/lib/millrace', join(tmpdir(), 'millrace')];

export async function choosePlacement(params: PlacementParams): Promise<Placement> {
  const { home, accounts } = params;
  const remembered = (await readIfPresent(home.locationFile))?.trim();
  if (remembered && !existsSync(remembered)) throw lostShelter(home, remembered);
  const folder = remembered || home.path;
  const dataFolder = join(folder, 'postgres');
  const account = chooseAccount(accounts, { data: dataFolder, home: home.path });
  if (account === null || remembered) return { folder, dataFolder, account };
  if (await canEnter(account, home.path)) return { folder, dataFolder, account };
  const shelter = await makeShelter(params, account);
  await writeWhole(home.locationFile, `${shelter}\n`);
  params.onNotice(
    `PostgreSQL runs as ${account.name}, which may not enter ${home.path}; its data is kept in ${shelter} instead` +
      ` (remembered in ${home.locationFile}).`,
  );
  return { folder: shelter, dataFolder: join(shelter, 'postgres'), account };
}

/** Asks the kernel instead of reading modes: access lists and mount options count as well. */
async function canEnter(account: Account, folder: string): Promise<boolean> {
  const { exitCode } = await runTool({ file: '/bin/sh', args: ['-c', 'cd "$1"', 'sh', folder], account });
  return exitCode === 0;
}

async function makeShelter(params: PlacementParams, account: Account): Promise<string> {
  for (const base of params.shelters) {
    const folder = await claimFolder(base, shelterName(params.home.path)).catch(() => null);
    if (folder !== null && (await canEnter(account, folder))) return folder;
  }
  throw failure(
    'EMBEDDED_START_FAILED',
    `PostgreSQL must not run as root and ${account.name} may not enter ${params.home.path}, ` +
      `nor could a folder be made in ${params.shelters.join(' or ')}. ` +
      'Set MILLRACE_HOME to a folder other users may enter, run as another user, or set DATABASE_URL.',
  );
}

/** An empty database in place of a lost one would look like a start without trouble, so a person decides. */
function lostShelter(home: Home, folder: string): AppError {
  return failure(
    'EMBEDDED_START_FAILED',
    `The data of ${home.path} was kept in ${folder}, which does not exist any more. ` +
      `Restore that folder, or delete ${home.locationFile} to begin with an empty database.`,
  );
}

function shelterName(homePath: string): string {
  return createHash('sha256').update(homePath).digest('hex').slice(0, 16);
}

/**
 * A fresh folder each time: one that is already there belongs to a home that was deleted, and its data is not ours to
 * reuse.
 */
async function claimFolder(base: string, name: string): Promise<string | null> {
  await mkdir(base, { recursive: true, mode: 0o755 });
  const owner = await lstat(base);
  if (!owner.isDirectory() || owner.uid !== process.getuid?.()) return null;
  for (let n = 1; ; n += 1) {
    const folder = join(base, n === 1 ? name : `${name}-${n}`);
    try {
      await mkdir(folder);
      await chmod(folder, 0o711);
      return folder;
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
  }
}
