import { Loop, type Service } from '../../engine/loop.ts';
import type { IngestContext } from './context.ts';
import { Intake } from './intake.ts';
import { numberStreams } from './postgres-streams.ts';
import type { Settler } from './settler.ts';

const NUMBER_EVERY_MS = 1_000;
const NUMBER_IDLE_MS = 5_000;

/** The loops of the ingest API: what takes published tasks, settles jobs and numbers streams. */
export function ingestServices(c: IngestContext, { settler }: { settler: Settler }): Service[] {
  const { events, database } = c.engine;
  return [
    settler,
    new Intake(c),
    new Loop({
      name: 'stream numberer',
      round: async () => ((await numberStreams(database)) > 0 ? NUMBER_EVERY_MS : NUMBER_IDLE_MS),
      events,
    }),
  ];
}
