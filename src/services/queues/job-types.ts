import { AppError } from '../../core/errors.ts';
import { NIL_ORG_ID, type Requester } from '../../core/governance/audit-action.ts';
import { suggestion } from '../../core/nearest-name.ts';
import type { Engine } from '../../engine/engine.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { type JobType, pauseType, readTypes, resumeType } from '../../ledger/queues/job-types.ts';
import { type ListPage, type PageRequest, pageOf } from './list-page.ts';
import { listWorkers } from './list-workers.ts';

/** A type, and the workers that run its jobs. */
export type JobTypeView = JobType & { readonly workerIds: readonly number[]; readonly running: number };

/** `orgId`: counts only its jobs. */
export async function listTypes(
  engine: Engine,
  { orgId, ...page }: PageRequest & { orgId: string | null },
): Promise<ListPage<JobTypeView>> {
  const { database } = engine;
  const [types, workers] = await Promise.all([readTypes(database.maintenance), listWorkers(engine, { orgId })]);
  const live = workers.filter(({ status }) => status === 'alive' || status === 'stalled');
  const running = Map.groupBy(
    workers.flatMap(({ runningByType }) => [...runningByType]),
    ([type]) => type,
  );
  const items = types.map((type) => ({
    ...type,
    workerIds: live.filter((worker) => worker.types.includes(type.name)).map(({ id }) => id),
    running: (running.get(type.name) ?? []).reduce((sum, [, jobs]) => sum + jobs, 0),
  }));
  const sorted = items.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return pageOf(database, { items: sorted, keyOf: ({ name }) => name, list: 'JOB_TYPES', orgId }, page);
}

type Request = { readonly name: string; readonly requester: Requester };

/** Starts no more jobs of the type. Running jobs continue. */
export const pauseJobType = (engine: Engine, request: Request): Promise<void> => switchType(engine, request, 'type.paused');

export const resumeJobType = (engine: Engine, request: Request): Promise<void> => switchType(engine, request, 'type.resumed');

/** Refuses a type that no worker ever registered, so that a mistyped name does not look like a success. */
async function switchType(engine: Engine, { name, requester }: Request, event: 'type.paused' | 'type.resumed'): Promise<void> {
  await inTransaction(engine.database.api, async (client) => {
    const names = (await readTypes(client)).map((type) => type.name);
    if (!names.includes(name)) {
      const message = `No worker has registered the type "${name.slice(0, 100)}"${suggestion(name, names)}. See GET /operators/types or "millrace types list".`;
      throw new AppError('NOT_FOUND', { message });
    }
    await (event === 'type.paused' ? pauseType : resumeType)(client, name);
    await recordActions(client, [{ orgId: NIL_ORG_ID, event, requester, jobType: name }]);
  });
  engine.hint('ready');
}
