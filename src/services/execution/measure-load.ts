import { EXECUTION_TYPE } from '../../core/execution/kinds.ts';
import { DEFAULT_QUEUE } from '../../core/submission-fields.ts';
import type { Engine } from '../../engine/engine.ts';
import { queueDepth } from '../../ledger/queues/queue-depth.ts';
import { checkReadiness } from '../admission/check-readiness.ts';

export type Load = { readonly queueDepth: number; readonly workers: number | null };

/** Beyond this it no longer matters how many. */
const DEEPEST = 1_000_000;

/** How many jobs of the execution API wait, and how many workers live to run them, over all processes. */
export async function measureLoad(engine: Engine): Promise<Load> {
  const waiting = { queue: DEFAULT_QUEUE, jobType: EXECUTION_TYPE, atMost: DEEPEST };
  const [{ workers }, depth] = await Promise.all([
    checkReadiness(engine),
    queueDepth(engine.database.maintenance, waiting),
  ]);
  return { queueDepth: depth, workers };
}
