import { DEFAULT_DEAD_LETTER_TERMS, type DeadLetterTerms } from '../../core/governance/dead-letter.ts';
import type { Database } from '../../ledger/driver/database.ts';
import type { EventHub } from '../events.ts';
import type { Service } from '../loop.ts';
import type { JobWriter } from '../submit/job-writer.ts';
import { DeadLetterDesk, type DeskParts } from './dead-letter-desk.ts';
import { DeadLetterKeeper } from './dead-letter-keeper.ts';
import { OperationRunner } from './operation-runner.ts';

export type DeadLetterOptions = Pick<DeskParts, 'prepare' | 'maxPayloadBytes'> & {
  database: Database;
  events: EventHub;
  writer: JobWriter;
  terms?: Partial<DeadLetterTerms>;
  hint(hint: 'ready' | 'timers' | 'cancel' | 'releases'): void;
};

/** What a process has for dead letters and operations. */
export type DeadLetterParts = {
  readonly terms: DeadLetterTerms;
  readonly desk: DeadLetterDesk;
  readonly runner: OperationRunner;
  readonly loops: readonly Service[];
};

export function createDeadLetterParts({ database, events, writer, hint, ...options }: DeadLetterOptions): DeadLetterParts {
  const terms = { ...DEFAULT_DEAD_LETTER_TERMS, ...options.terms };
  const { prepare, maxPayloadBytes } = options;
  const onRetried = (state: 'scheduled' | 'delayed') => hint(state === 'scheduled' ? 'ready' : 'timers');
  const onCancelled = () => {
    hint('cancel');
    hint('releases');
  };
  const write: DeskParts['write'] = (entry, client) => writer.writeTogether([entry], client);
  const desk = new DeadLetterDesk({ terms, maxPayloadBytes, prepare, write, onRetried });
  const runner = new OperationRunner({ database, events, desk, onRetried, onCancelled });
  return { terms, desk, runner, loops: [runner, new DeadLetterKeeper({ database, events, terms })] };
}
