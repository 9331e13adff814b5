/**
 * Chooses the folder for data and programs. Normally it is the home. If the server's account cannot enter root's home, typically
 * below /root, they go to a shelter: a folder outside.
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
    `PostgreSQL runs as ${account.name}, which cannot enter ${home.path}. Its data is in ${shelter} instead` +
      ` (recorded in ${home.locationFile}).`,
  );
  return { folder: shelter, dataFolder: join(shelter, 'postgres'), account };
}

/** Tries it, because modes alone do not show access lists and mount options. */
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
    `PostgreSQL must not run as root, the account ${account.name} cannot enter ${params.home.path}, ` +
      `and no folder could be created in ${params.shelters.join(' or ')}. ` +
      'Set MILLRACE_HOME to a folder that other users can enter, run as another user, or set DATABASE_URL.',
  );
}

/** Starting with an empty database would hide the loss, so a person must decide. */
function lostShelter(home: Home, folder: string): AppError {
  return failure(
    'EMBEDDED_START_FAILED',
    `The data of ${home.path} was in ${folder}, which no longer exists. ` +
      `Restore that folder, or delete ${home.locationFile} to start with an empty database.`,
  );
}

function shelterName(homePath: string): string {
  return createHash('sha256').update(homePath).digest('hex').slice(0, 16);
}

/** Always creates a new folder: an existing one belongs to a deleted home, and its data must not be reused. */
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
