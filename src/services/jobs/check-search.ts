import { isStorable } from '../../core/bounded-text.ts';
import { AppError } from '../../core/errors.ts';
import { isUuid } from '../../core/ids.ts';
import { PRIORITIES } from '../../core/priority.ts';
import { JOB_STATES } from '../../core/states.ts';
import { Issues, readWord } from '../../core/submission-fields.ts';
import type { JobFilter } from '../../ledger/search/job-filter.ts';
import { SEARCH_ORDERS } from '../../ledger/search/search-cursor.ts';

/**
 * Refuses unknown states, priorities and orders, which a caller in plain JavaScript may send. A reserved name may be searched for,
 * because older jobs may have it. Text is refused only if no job can hold it.
 */
export function checkSearch(filter: JobFilter, order: string | undefined): void {
  const { states, priorities, tags, ids, ...others } = filter;
  const issues = new Issues();
  for (const [name, values] of Object.entries(others))
    if (Array.isArray(values))
      for (const [index, text] of values.entries()) checkStorable(text, `${name}[${index}]`, issues);
  for (const state of states ?? []) readWord(state, { field: 'states', words: JOB_STATES }, issues);
  for (const priority of priorities ?? []) readWord(priority, { field: 'priorities', words: PRIORITIES }, issues);
  for (const [name, value] of Object.entries(tags ?? {})) {
    checkStorable(name, 'tags', issues);
    checkStorable(value, 'tags', issues);
  }
  for (const [index, id] of (ids ?? []).entries())
    if (!isUuid(id)) issues.add(`ids[${index}]`, 'INVALID_ID', 'must be a job id');
  if (order !== undefined) readWord(order, { field: 'order', words: SEARCH_ORDERS }, issues);
  const { list } = issues;
  if (list.length > 0) throw new AppError('INVALID_REQUEST', { message: list[0]?.message, details: list });
}

function checkStorable(text: unknown, field: string, issues: Issues): void {
  if (typeof text !== 'string') issues.add(field, 'INVALID_TYPE', 'must be a string');
  else if (!isStorable(text)) issues.add(field, 'INVALID_TEXT', 'must be valid Unicode without the NUL character');
}
