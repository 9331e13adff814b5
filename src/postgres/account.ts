/** PostgreSQL refuses to run as root, so root starts the server under another existing account. */
import { readFileSync, statSync } from 'node:fs';
import { failure } from './failure.ts';

export type Account = { name: string; uid: number; gid: number };

/** The facts about this machine that choose the account. Tests replace them. */
export type AccountSource = { isRoot: boolean; passwd: () => string };

export const machineAccounts: AccountSource = {
  isRoot: process.getuid?.() === 0,
  passwd: () => readFileSync('/etc/passwd', 'utf8'),
};

const PREFERRED = ['postgres', '_postgres', 'nobody'];

/**
 * Returns null to run as the current user. Root chooses the owner of existing data, then the owner of the home, then an account of
 * the machine. Only the owner of existing data may lack a name, because initdb refuses a uid without one.
 */
export function chooseAccount(source: AccountSource, folders: { data: string; home: string }): Account | null {
  if (!source.isRoot) return null;
  const named = parsePasswd(readPasswd(source)).filter((account) => account.uid !== 0 && account.gid !== 0);
  const dataOwner = statSync(folders.data, { throwIfNoEntry: false });
  if (dataOwner !== undefined && dataOwner.uid !== 0) {
    const { uid, gid } = dataOwner;
    return { name: named.find((account) => account.uid === uid)?.name ?? `uid ${uid}`, uid, gid };
  }
  const homeUid = statSync(folders.home, { throwIfNoEntry: false })?.uid;
  const homeOwner = named.find((account) => account.uid === homeUid);
  const preferred = PREFERRED.map((name) => named.find((account) => account.name === name));
  const account = [homeOwner, ...preferred, named[0]].find((candidate) => candidate !== undefined);
  if (account !== undefined) return account;
  throw failure(
    'EMBEDDED_UNSUPPORTED_PLATFORM',
    'PostgreSQL must not run as root, and /etc/passwd has no other account. ' +
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

function readPasswd(source: AccountSource): string {
  try {
    return source.passwd();
  } catch {
    return '';
  }
}
