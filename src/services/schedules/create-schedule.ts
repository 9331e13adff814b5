import type { Engine } from '../../engine/engine.ts';
import { inTransaction } from '../../ledger/driver/database.ts';
import { createSchedule as createInLedger } from '../../ledger/queues/put-schedule.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import { auditSchedule } from './audit-schedule.ts';
import { conflict, type PutScheduleParams, scheduleOf, toPut } from './put-schedule.ts';

/** Creates a schedule. Throws CONFLICT if the org has one with this key. */
export async function createSchedule(engine: Engine, params: PutScheduleParams): Promise<Schedule> {
  const toCreate = await toPut(engine, params);
  const put = await inTransaction(
    engine.database.api,
    async (client) => {
      const done = await createInLedger(client, toCreate);
      if (done.kind === 'created') await auditSchedule(client, done.schedule, { event: 'created', by: params });
      return done;
    },
    { mayRepeat: true },
  );
  if (put.kind === 'taken')
    throw conflict(`The org has a schedule with the key "${params.key}". Choose another key, or replace it with PUT.`);
  return scheduleOf(put, params);
}
