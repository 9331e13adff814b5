import { CATEGORY_NAMES } from './governance/categories.ts';
import { isUuid } from './ids.ts';
import type { Issues } from './issues.ts';
import { readWord } from './submission-fields.ts';
import { isTraceparent } from './traceparent.ts';

/** Where a job came from. It does not change how the job runs. */
export interface Envelope {
  readonly category: string | null;
  readonly projectId: string | null;
  readonly traceparent: string | null;
  /** The request that submitted the job; null when the request has the id of the job. */
  readonly requestId: string | null;
}

interface Given {
  readonly category?: unknown;
  readonly projectId?: unknown;
  readonly traceparent?: unknown;
}

const EXAMPLE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

/** Returns null when no member is set, as for most jobs. */
export function readEnvelope(given: Given, requestId: string | null, issues: Issues): Envelope | null {
  const { category, projectId, traceparent } = given;
  if (category == null && projectId == null && traceparent == null && requestId === null) return null;
  return {
    category: category == null ? null : readWord(category, { field: 'category', words: CATEGORY_NAMES }, issues),
    projectId: projectId == null ? null : readProjectId(projectId, issues),
    traceparent: traceparent == null ? null : readTraceparent(traceparent, issues),
    requestId,
  };
}

function readProjectId(value: unknown, issues: Issues): string | null {
  if (isUuid(value)) return value.toLowerCase();
  issues.add('projectId', 'INVALID_ID', 'must be a UUID');
  return null;
}

function readTraceparent(value: unknown, issues: Issues): string | null {
  if (isTraceparent(value)) return value;
  issues.add('traceparent', 'INVALID_VALUE', `must be a W3C traceparent such as ${EXAMPLE}`);
  return null;
}
