import type { Engine } from '../engine/engine.ts';
import type { Org } from '../services/access/list-orgs.ts';
import type { CommonValues, Invocation, ValuesOf } from './command.ts';
import { type CONFIRM_OPTIONS, confirm } from './confirm.ts';
import { withEngine } from './connection.ts';
import { chosenOrgs, type ORG_OPTIONS } from './org-choice.ts';

type How = { dryRun: boolean; onProgress(done: number): void };

export type BulkTask<Result> = {
  command: string;
  /** In the sentence `This would cancel 3 jobs`. */
  verb: string;
  /** Changes the jobs of one org, or counts them in a dry run. */
  act(engine: Engine, org: Org, how: How): Promise<Result>;
  /** How many jobs the result says were changed. */
  affected(result: Result): number;
  none: Result;
  add(left: Result, right: Result): Result;
};

type Values = CommonValues & ValuesOf<typeof ORG_OPTIONS> & ValuesOf<typeof CONFIRM_OPTIONS>;

/** Changes all jobs that match, org by org. It counts them first, and changes them only with --yes or a typed confirmation. */
export function runBulk<Result>(invocation: Pick<Invocation, 'out'> & { values: Values }, task: BulkTask<Result>): Promise<Result> {
  const { values, out } = invocation;
  return withEngine({ values, out }, async (engine) => {
    const orgs = await chosenOrgs(engine, values);
    const counted = new Map<Org, number>();
    let expected = task.none;
    for (const org of orgs) {
      const found = await task.act(engine, org, { dryRun: true, onProgress: () => {} });
      if (task.affected(found) > 0) counted.set(org, task.affected(found));
      expected = task.add(expected, found);
    }
    const jobs = task.affected(expected);
    if (values['dry-run'] === true) return expected;
    if (jobs > 0 && values.yes !== true) await confirm({ command: task.command, verb: task.verb, jobs, of: ownersText(counted) }, out);
    let total = task.none;
    for (const org of counted.size === 0 ? orgs : counted.keys()) {
      const before = task.affected(total);
      const onProgress = (done: number) => out.progress(`${before + done} of ${jobs} jobs ...`);
      total = task.add(total, await task.act(engine, org, { dryRun: false, onProgress }));
    }
    out.progress('');
    return total;
  });
}

const MOST_NAMED = 5;

function ownersText(counted: ReadonlyMap<Org, number>): string {
  const [first, ...more] = [...counted];
  if (first !== undefined && more.length === 0) return `the org ${first[0].slug}`;
  const named = [...counted].slice(0, MOST_NAMED).map(([{ slug }, jobs]) => `${slug} ${jobs}`);
  const rest = counted.size > MOST_NAMED ? ` and ${counted.size - MOST_NAMED} more` : '';
  return `${counted.size} orgs (${named.join(', ')}${rest})`;
}
