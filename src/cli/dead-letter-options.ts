import { readFileSync } from 'node:fs';
import { OPERATOR } from '../core/governance/actor.ts';
import type { Requester } from '../core/governance/audit-action.ts';
import { DEAD_LETTER_STATUSES } from '../core/governance/dead-letter.ts';
import { parseTimestamp } from '../core/timestamp.ts';
import type { DeadLetterFilter } from '../services/dead-letters/dead-letter-request.ts';
import type { ValuesOf } from './command.ts';
import { readWord } from './option-values.ts';
import { UsageError } from './usage-error.ts';

/** Whoever runs the program on this machine is an operator. */
export const CLI_REQUESTER: Requester = { actor: OPERATOR, requestId: null };

export const REASON_OPTION = { reason: { type: 'string', value: 'TEXT', help: 'the reason, for the audit trail' } } as const;

export const ENTRY_OPTIONS = {
  type: { type: 'string', value: 'TYPE', help: 'entries of this job type' },
  queue: { type: 'string', value: 'QUEUE', help: 'entries with this origin queue' },
  category: { type: 'string', value: 'NAME', help: 'entries whose job has this category' },
  code: { type: 'string', value: 'CODE', help: 'entries with this error code' },
  fingerprint: { type: 'string', value: 'ID', help: 'entries of this group' },
  project: { type: 'string', value: 'ID', help: 'entries of this project' },
  since: { type: 'string', value: 'TIME', help: 'died at or after this time, such as 2026-01-15T10:30:00Z' },
  until: { type: 'string', value: 'TIME', help: 'died before this time' },
} as const;

export const STATUS_OPTION = {
  status: { type: 'string', value: 'STATUS', help: `${DEAD_LETTER_STATUSES.join(', ')} or all; default: open` },
} as const;

type Values = ValuesOf<typeof ENTRY_OPTIONS> & ValuesOf<typeof STATUS_OPTION>;

export function readEntryFilter({ type, queue, category, code, fingerprint, project, since, until, status }: Values): DeadLetterFilter {
  const word = readWord(status, 'status', [...DEAD_LETTER_STATUSES, 'all'] as const);
  const given = {
    type,
    queue,
    category,
    code,
    fingerprint,
    projectId: project,
    since: timeOf(since, 'since'),
    until: timeOf(until, 'until'),
    status: word,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as DeadLetterFilter;
}

function timeOf(text: string | undefined, option: string): Date | undefined {
  if (text === undefined) return undefined;
  const read = parseTimestamp(text);
  if (read.ok) return read.date;
  throw new UsageError(`--${option}: ${read.message}.`);
}

/** JSON on the command line, or in a file after an @. */
export function readJson(text: string | undefined, option: string): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text.startsWith('@') ? readFileSync(text.slice(1), 'utf8') : text);
  } catch (error) {
    throw new UsageError(`--${option} takes JSON, or @FILE with JSON: ${(error as Error).message}.`);
  }
}
