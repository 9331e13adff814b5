import { lookUp } from '../../core/dictionary.ts';
import type { Engine } from '../../engine/engine.ts';
import { listWorkers as listInLedger, type WorkerInfo, workerLoads } from '../../ledger/attempts/workers.ts';
import { type PublicNames, publicNames } from '../jobs/public-names.ts';
import { type ListPage, type PageRequest, pageOf } from './list-page.ts';

/** `silent`: no heartbeat for 30 seconds. `stalled`: a handler blocks its event loop. */
type WorkerStatus = 'alive' | 'stalled' | 'silent' | 'stopped';

export type ListedWorker = Omit<WorkerInfo, 'orgsOfTypes'> & {
  status: WorkerStatus;
  running: number;
  /** How many jobs of each type it runs. */
  runningByType: ReadonlyMap<string, number>;
};

const SILENT_AFTER_MS = 30_000;

/** `orgId`: whose jobs count. `hidesNames`: for the key of that org, which learns nothing of the server and of other orgs. */
export type WorkerRequest = { readonly orgId?: string | null; readonly hidesNames?: boolean };

/** Returns the workers of all processes, with the number of jobs that each runs. */
export async function listWorkers(engine: Pick<Engine, 'database'>, request: WorkerRequest = {}): Promise<ListedWorker[]> {
  const { orgId = null, hidesNames = false } = request;
  const { maintenance } = engine.database;
  const [workers, loads] = await Promise.all([listInLedger(maintenance), workerLoads(maintenance, orgId)]);
  const names = hidesNames ? await publicNames(engine) : null;
  return workers.map(({ orgsOfTypes, ...worker }) => {
    const runningByType = loads.get(worker.id) ?? new Map<string, number>();
    const running = [...runningByType.values()].reduce((sum, jobs) => sum + jobs, 0);
    const shown = orgId === null || names === null ? worker : { ...worker, ...seenBy(orgId, names, worker, orgsOfTypes) };
    return { ...shown, status: statusOf(worker), running, runningByType };
  });
}

/** A page of the workers that have not stopped. */
export async function pageOfWorkers(
  engine: Pick<Engine, 'database'>,
  request: WorkerRequest & { orgId: string | null },
  page: PageRequest,
): Promise<ListPage<ListedWorker>> {
  const items = (await listWorkers(engine, request)).filter(({ status }) => status !== 'stopped');
  return pageOf(engine.database, { items, keyOf: ({ id }) => id, list: 'WORKERS', orgId: request.orgId }, page);
}

function seenBy(orgId: string, { workerOf, hostOf }: PublicNames, { name, host, types }: Shown, orgsOfTypes: WorkerInfo['orgsOfTypes']) {
  const isServed = (type: string): boolean => (lookUp(orgsOfTypes ?? {}, type) ?? [orgId]).includes(orgId);
  return { name: workerOf(name), host: hostOf(host), types: types.filter(isServed) };
}

type Shown = Pick<WorkerInfo, 'name' | 'host' | 'types'>;

function statusOf({ stoppedAt, silentMs, stalledMs }: Pick<WorkerInfo, 'stoppedAt' | 'silentMs' | 'stalledMs'>): WorkerStatus {
  if (stoppedAt !== null) return 'stopped';
  if (silentMs >= SILENT_AFTER_MS) return 'silent';
  return stalledMs === null ? 'alive' : 'stalled';
}
