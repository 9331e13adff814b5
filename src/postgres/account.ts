/** PostgreSQL refuses to run as root, so root lends the server the identity of an account that already exists. */
import { readFileSync, statSync } from 'node:fs';
import { failure } from './failure.ts';

export type Account = { name: string; uid: number; gid: number };

/** What decides which account runs the server; replaceable where a test needs another machine. */
export type AccountSource = { isRoot: boolean; passwd: () => string };

export const machineAccounts: AccountSource = {
  isRoot: process.getuid?.() === 0,
  passwd: () => readFileSync('/etc/passwd', 'utf8'),
};

const PREFERRED = ['postgres', '_postgres', 'nobody'];

/**
 * `null` means: run as the user that runs this program. Otherwise the owner of existing data, else the owner of
 * the home, else an account of the machine. Only the first may lack a name, because initdb refuses a uid that has
 * none.
 */
export function chooseAccount(source: AccountSource, folders: { data: string; home: string }): Account | null {
  if (!source.isRoot) return null;
  const named = parsePasswd(readPasswd(source)).filter((account) => account.uid !== 0 && account.gid !== 0);
  const dataOwner = statSync(folders.data, { throwIfNoEntry: false });
  if (dataOwner !== undefined && dataOwner.uid !== 0) {
    return { name: nameOf(named, dataOwner.uid), uid: dataOwner.uid, gid: dataOwner.gid };
  }
  const homeUid = statSync(folders.home, { throwIfNoEntry: false })?.uid;
  const homeOwner = named.find((account) => account.uid === homeUid);
  const preferred = PREFERRED.map((name) => named.find((account) => account.name === name));
  const account = [homeOwner, ...preferred, named[0]].find((candidate) => candidate !== undefined);
  if (account !== undefined) return account;
  throw failure(
    'EMBEDDED_UNSUPPORTED_PLATFORM',
    'PostgreSQL must not run as root, and /etc/passwd names no other account it could run as. ' +
      'Run as another user, or set DATABASE_URL to a PostgreSQL server.',
  );
}

function parsePasswd(text: string): Account[] {
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    if (!name || name.startsWith('#') || !uid || !gid) return [];
    return [{ name, uid: Number(uid), gid: Number(gid) }];
  });
}

function nameOf(accounts: readonly Account[], uid: number): string {
  return accounts.find((account) => account.uid === uid)?.name ?? `uid ${uid}`;
}

function readPasswd(source: AccountSource): string {
  try {
    return source.passwd();
  } catch {
    return '';
  }
}
