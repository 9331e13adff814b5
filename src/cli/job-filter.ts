import { JOB_STATES } from '../core/states.ts';
import type { JobFilter } from '../ledger/search/search-jobs.ts';
import type { ValuesOf } from './command.ts';
import { readList, readTags, readWords } from './option-values.ts';
import { UsageError } from './usage-error.ts';

export const FILTER_OPTIONS = {
  state: { type: 'string', multiple: true, value: 'A,B', help: 'only jobs in these states' },
  type: { type: 'string', multiple: true, value: 'A,B', help: 'only jobs of these types' },
  tag: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    help: 'only jobs with this tag; may be given several times',
  },
} as const;

export function readFilter(values: ValuesOf<typeof FILTER_OPTIONS>): JobFilter {
  return {
    states: readWords(values.state, 'state', JOB_STATES),
    types: readList(values.type),
    tags: readTags(values.tag),
  };
}

/** The jobs of a bulk command are named by ids or by a filter. An empty filter would mean every job. */
export function checkTarget(ids: readonly string[], filter: JobFilter, command: string): void {
  if (ids.length > 0 && !isEmptyFilter(filter))
    throw new UsageError('Name jobs by id, or by --state, --type and --tag, but not by both.', command);
  if (ids.length === 0 && isEmptyFilter(filter))
    throw new UsageError('No job is named. Give ids, or --state, --type or --tag. To mean every job, name its states.', command);
}

const isEmptyFilter = ({ states, types, tags }: JobFilter): boolean => states === undefined && types === undefined && tags === undefined;
