/** Jobs with a unique key. */
import fc from 'fast-check';
import { expect } from 'vitest';
import type { Written } from '../../src/ledger/jobs/submit-jobs.ts';
import { prepare, priorityOf, UNTIED } from './caller-commands.ts';
import { commandOf } from './command.ts';
import type { Model, Submitted } from './model.ts';
import { hasEnded, type ModelJob } from './model-job.ts';

type Rule = { key: string; until: 'started' | 'finished'; onConflict: 'skip' | 'replace' | 'replace_payload' };

/** Its next attempt has not begun, as far as anybody can know. */
const waits = ({ state, holder }: ModelJob): boolean =>
  state === 'pending' || state === 'delayed' || state === 'retrying' || (state === 'scheduled' && holder === null);

function submitTo(model: Model, submitted: Submitted, rule: Rule): Partial<Written> {
  const name = `${submitted.type} ${rule.key}`;
  const marked = model.marks.get(name);
  const isInTheWay = marked !== undefined && (rule.until === 'started' ? waits(marked) : !hasEnded(marked));
  if (isInTheWay && (rule.onConflict === 'skip' || !waits(marked))) return { kind: 'skipped', existingId: marked.id };
  if (isInTheWay && rule.onConflict === 'replace_payload') {
    marked.payload = submitted.payload;
    return { kind: 'updated', existingId: marked.id };
  }
  if (isInTheWay) model.replace(marked);
  const written = model.submit(submitted);
  model.marks.set(name, model.jobs.at(-1) as ModelJob);
  return { ...written, ...(isInTheWay ? { replacedId: marked.id } : {}) };
}

/** Alone or in the middle of a transaction: the ledger looks at the key in two ways. */
export const submitUnique = commandOf({
  name: 'submitUnique',
  given: fc.record({
    // Few, so that keys meet.
    type: fc.constantFrom('short', 'brisk'),
    priority: priorityOf,
    delayMs: fc.constantFrom(0, 0, 30_000),
    version: fc.nat({ max: 100 }),
    unique: fc.record<Rule>({
      key: fc.constantFrom('a', 'a', 'b'),
      until: fc.constantFrom('started', 'finished'),
      onConflict: fc.constantFrom('skip', 'replace', 'replace_payload'),
    }),
    isShared: fc.boolean(),
  }),
  run: async ({ isShared, version, ...given }, model, system) => {
    const { entry, submitted } = await prepare(system, { ...given, payload: { version } }, UNTIED);
    const [written] = await (isShared ? system.writer.write([entry]) : system.writer.writeTogether([entry]));
    expect(written).toMatchObject(submitTo(model, submitted, given.unique));
  },
});
