/** The embedded server from first use to last user out. */
import { join } from 'node:path';
import { Client } from 'pg';
import { type Account, type AccountSource, machineAccounts } from './account.ts';
import { type Binaries, locateNative, nativeVersion, prepareBinaries } from './binaries.ts';
import { checkServer } from './check.ts';
import { ensureCluster, SUPERUSER } from './cluster.ts';
import { explainDiskFull, failure, messageOf } from './failure.ts';
import { ensurePassword, giveToOwner, type Home, openHome, writeWhole } from './home.ts';
import { type Keeper, keepServer } from './keeper.ts';
import { lockWithin, type OsLock } from './os-lock.ts';
import { choosePlacement, machineShelters, type Placement } from './placement.ts';
import { choosePort } from './port.ts';
import { isAlive, isPostmasterOf, readPostmaster } from './postmaster.ts';
import { ensureServer, stopServer } from './server.ts';
import { countLiveUsers, joinUsers, leaveUsers } from './users.ts';

const DATABASE = 'millrace';
/** Longer than any start or stop that still makes progress. */
const LOCK_TIMEOUT_MS = 15 * 60_000;

/** What the machine provides; a test replaces a part of it to stand on a different machine. */
export type Machine = {
  accounts: AccountSource;
  native: () => string;
  shelters: readonly string[];
  choosePort: (home: Home, attempt: number) => Promise<number>;
};

const thisMachine: Machine = {
  accounts: machineAccounts,
  native: () => locateNative(),
  shelters: machineShelters,
  choosePort,
};

export type EmbeddedParams = { home: string; onNotice: (sentence: string) => void; machine?: Partial<Machine> };
export type EmbeddedServer = { url: string; home: string; version: number; close(): Promise<void> };

type Session = EmbeddedParams & { machine: Machine; place: Home };
type Program = { dataFolder: string; account: Account | null; binaries: Binaries };
type Running = { url: string; version: number; port: number; program: Program };

export async function openEmbedded(params: EmbeddedParams): Promise<EmbeddedServer> {
  const machine = { ...thisMachine, ...params.machine };
  const session = { ...params, machine, place: await openHome(params.home, machine.accounts.isRoot) };
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
        `for ${LOCK_TIMEOUT_MS / 60_000} minutes. End that process and start again.`,
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
    const port = await ensureServer({
      ...program,
      logFile: place.logFile,
      choosePort: (attempt) => machine.choosePort(place, attempt),
    });
    await publishPort(session, port);
    const { url, version } = await openDatabase(`${SUPERUSER}:${await password()}@127.0.0.1:${port}`);
    return { running: { url, version, port, program }, user: await joinUsers(place, isRoot) };
  } catch (error) {
    if ((await countLiveUsers(place)) === 0) await stopServer(program);
    throw explainDiskFull(error, placement.dataFolder);
  }
}

function keepRunning(session: Session, { program, port }: Running): Keeper {
  const { place, onNotice } = session;
  const { dataFolder } = program;
  const restart = async (isStopped: () => boolean): Promise<boolean> => {
    const found = readPostmaster(dataFolder);
    if (isStopped() || (found !== null && (await isPostmasterOf(found.pid, dataFolder)))) return false;
    // On the same port: whoever uses the server knows it by its address.
    await ensureServer({ ...program, logFile: place.logFile, choosePort: async () => port });
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
  if ((await countLiveUsers(place)) > 0 || (await stopServer(running.program))) return;
  session.onNotice(`The embedded PostgreSQL of ${place.path} did not stop; the next start will use it as it is.`);
}

async function findBinaries(session: Session, placement: Placement): Promise<Binaries> {
  const native = session.machine.native();
  const copyTo = join(placement.folder, `postgres-binaries-${await nativeVersion(native)}`);
  return prepareBinaries({ native, copyTo, account: placement.account });
}

async function publishPort(session: Session, port: number): Promise<void> {
  const { place, machine } = session;
  await writeWhole(place.portFile, `${port}\n`);
  for (const file of [place.portFile, place.logFile]) await giveToOwner(place, file, machine.accounts.isRoot);
}

/** Makes the database on first use. A server that runs but refuses our password is not one we started. */
async function openDatabase(server: string): Promise<{ url: string; version: number }> {
  const client = new Client({ connectionString: `postgres://${server}/postgres` });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [DATABASE]);
    if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
  } catch (error) {
    if (explainDiskFull(error, '') !== error) throw error;
    throw failure(
      'EMBEDDED_START_FAILED',
      `The embedded PostgreSQL runs but cannot be used (${messageOf(error)}). ` +
        'If its password was changed, put the new one into the file postgres-password of the home.',
      error,
    );
  } finally {
    await client.end().catch(() => undefined);
  }
  const url = `postgres://${server}/${DATABASE}`;
  return { url, ...(await checkServer(url)) };
}
