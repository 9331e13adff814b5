/** The embedded server. The first process starts it, and the last one stops it. */
import { randomUUID } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Account, type AccountSource, machineAccounts } from './account.ts';
import { type Address, addressChooser, type ChooseAddress, removeSocketFolder, urlOf } from './address.ts';
import { type Binaries, locateNative, nativeVersion, prepareBinaries } from './binaries.ts';
import { checkServer, withClient } from './check.ts';
import { ensureCluster, SUPERUSER } from './cluster.ts';
import { explainDiskFull, failure, messageOf } from './failure.ts';
import { ensurePassword, giveToOwner, type Home, openHome, writeWhole } from './home.ts';
import { type Keeper, keepServer } from './keeper.ts';
import { lockWithin, type OsLock, tryLock } from './os-lock.ts';
import { choosePlacement, machineShelters, type Placement } from './placement.ts';
import { isAlive, isPostmasterOf, readPostmaster } from './postmaster.ts';
import { REQUIRE_SCRAM } from './scram-client.ts';
import { ensureServer, stopServer } from './server.ts';

const DATABASE = 'millrace';
/** Longer than any start or stop that makes progress. */
const LOCK_TIMEOUT_MS = 15 * 60_000;

/** The facts about this machine. Tests replace some of them. */
export type Machine = {
  accounts: AccountSource;
  native: () => string;
  shelters: readonly string[];
  chooseAddress: (placement: Placement) => ChooseAddress;
};

const thisMachine: Machine = {
  accounts: machineAccounts,
  native: () => locateNative(),
  shelters: machineShelters,
  chooseAddress: addressChooser,
};

export type EmbeddedParams = { home: string; onNotice: (sentence: string) => void; machine?: Partial<Machine> };
export type EmbeddedServer = { url: string; home: string; version: number; close(): Promise<void> };

type Session = EmbeddedParams & { machine: Machine; native: string; place: Home };
type Program = { dataFolder: string; account: Account | null; binaries: Binaries };
type Running = { url: string; version: number; address: Address; program: Program };

export async function openEmbedded(params: EmbeddedParams): Promise<EmbeddedServer> {
  const machine = { ...thisMachine, ...params.machine };
  // First, so that a process without the programs does not create the home.
  const native = machine.native();
  const session = { ...params, machine, native, place: await openHome(params.home, machine.accounts.isRoot) };
  const { running, user } = await holdingLock(session, () => joinServer(session));
  const keeper = keepRunning(session, running);
  let closing: Promise<void> | undefined;
  const close = () => {
    keeper.stop();
    closing ??= holdingLock(session, () => leaveServer(session, running, user));
    return closing;
  };
  return { url: running.url, home: session.place.path, version: running.version, close };
}

async function holdingLock<T>(session: Session, work: () => Promise<T>): Promise<T> {
  const { place } = session;
  const lock = await lockWithin(place.lockFile, LOCK_TIMEOUT_MS);
  if (lock === null) {
    throw failure(
      'EMBEDDED_START_FAILED',
      `Another process has been starting or stopping the PostgreSQL of ${place.path} ` +
        `for ${LOCK_TIMEOUT_MS / 60_000} minutes. Stop that process and start again.`,
    );
  }
  try {
    await giveToOwner(place, place.lockFile, session.machine.accounts.isRoot);
    return await work();
  } finally {
    lock.release();
  }
}

async function joinServer(session: Session): Promise<{ running: Running; user: OsLock }> {
  const { place, machine, onNotice } = session;
  const { isRoot } = machine.accounts;
  const placement = await choosePlacement({ ...machine, home: place, onNotice });
  const binaries = await findBinaries(session, placement);
  const program = { dataFolder: placement.dataFolder, account: placement.account, binaries };
  const password = () => ensurePassword(place, isRoot);
  await ensureCluster({ ...program, passwordFile: place.passwordFile, password });
  try {
    const chooseAddress = machine.chooseAddress(placement);
    const address = await ensureServer({ ...program, logFile: place.logFile, chooseAddress: (attempt) => chooseAddress(place, attempt) });
    await publishAddress(session, address);
    const { url, version } = await openDatabase(urlOf(address, `${SUPERUSER}:${await password()}`));
    return { running: { url, version, address, program }, user: await joinUsers(place, isRoot) };
  } catch (error) {
    if ((await countLiveUsers(place)) === 0) await stopServer(program);
    throw explainDiskFull(error, placement.dataFolder);
  }
}

function keepRunning(session: Session, { program, address }: Running): Keeper {
  const { place, onNotice } = session;
  const { dataFolder } = program;
  const restart = async (isStopped: () => boolean): Promise<boolean> => {
    const found = readPostmaster(dataFolder);
    if (isStopped() || (found !== null && (await isPostmasterOf(found.pid, dataFolder)))) return false;
    // At the same address, because the other users know it.
    await ensureServer({ ...program, logFile: place.logFile, chooseAddress: async () => address });
    return true;
  };
  return keepServer({
    home: place.path,
    isRunning: () => isAlive(readPostmaster(dataFolder)?.pid ?? 0),
    restart: (isStopped) => holdingLock(session, () => restart(isStopped)),
    onNotice,
  });
}

async function leaveServer(session: Session, running: Running, user: OsLock): Promise<void> {
  const { place } = session;
  await leaveUsers(user);
  if ((await countLiveUsers(place)) > 0) return;
  if (await stopServer(running.program)) return removeSocketFolder(running.address);
  session.onNotice(`The embedded PostgreSQL of ${place.path} did not stop. The next start will use the running server.`);
}

async function findBinaries({ native }: Session, placement: Placement): Promise<Binaries> {
  const copyTo = join(placement.folder, `postgres-binaries-${await nativeVersion(native)}`);
  return prepareBinaries({ native, copyTo, account: placement.account });
}

async function publishAddress(session: Session, { host, port }: Address): Promise<void> {
  const { place, machine } = session;
  await writeWhole(place.hostFile, `${host}\n`);
  await writeWhole(place.portFile, `${port}\n`);
  for (const file of [place.hostFile, place.portFile, place.logFile]) await giveToOwner(place, file, machine.accounts.isRoot);
}

/** Creates the database on first use. */
async function openDatabase(server: string): Promise<{ url: string; version: number }> {
  try {
    await withClient(`${server}/postgres?${REQUIRE_SCRAM}`, async (client) => {
      const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
      if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
    });
  } catch (error) {
    if (explainDiskFull(error, '') !== error) throw error;
    throw failure(
      'EMBEDDED_START_FAILED',
      `The embedded PostgreSQL runs but cannot be used (${messageOf(error)}). ` +
        'If its password was changed, write the new one to the file postgres-password in the home folder.',
      error,
    );
  }
  const url = `${server}/${DATABASE}?${REQUIRE_SCRAM}`;
  return { url, ...(await checkServer(url)) };
}

/**
 * Each process that uses the server locks a file of its own, so that a free lock shows that the process has ended. The caller of these
 * functions must hold the lock of the home.
 */
async function joinUsers(home: Home, isRoot: boolean): Promise<OsLock> {
  const path = join(home.usersFolder, `${process.pid}-${randomUUID()}`);
  const lock = tryLock(path, home.lockFile);
  if (lock === null) throw new Error(`the new file ${path} is already locked`);
  await giveToOwner(home, path, isRoot);
  return lock;
}

async function leaveUsers(lock: OsLock): Promise<void> {
  lock.release();
  await rm(lock.path, { recursive: true, force: true });
}

/** Counts the processes that use the server, and removes the files of those that ended. */
async function countLiveUsers(home: Home): Promise<number> {
  let live = 0;
  for (const name of await readdir(home.usersFolder)) {
    const path = join(home.usersFolder, name);
    const lock = tryLock(path);
    if (lock === null) live += 1;
    else await leaveUsers(lock);
  }
  return live;
}
