import { JOB_STATES } from '../core/states.ts';
import type { JobFilter } from '../ledger/search/search-jobs.ts';
import type { ValuesOf } from './command.ts';
import { readList, readTags, readWords } from './option-values.ts';

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

export const isEmptyFilter = ({ states, types, tags }: JobFilter): boolean =>
  states === undefined && types === undefined && tags === undefined;
