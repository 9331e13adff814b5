import { PermanentError } from '../core/handler-errors.ts';
import { type FetchTask, isPair, type Pair } from '../core/ingest/fetch-task.ts';

type Given = Partial<Record<keyof FetchTask, unknown>>;
type GivenStorage = Partial<Record<keyof FetchTask['storage'], unknown>>;

/** Tasks come from the ingest door or a trusted producer. One that is not complete cannot be downloaded, so it fails at once. */
export function readFetchTask(payload: unknown): FetchTask {
  const given = (typeof payload === 'object' && payload !== null ? payload : {}) as Given;
  const storage = (typeof given.storage === 'object' && given.storage !== null ? given.storage : {}) as GivenStorage;
  return {
    jobId: text(given.jobId, 'jobId'),
    jobType: text(given.jobType, 'jobType'),
    resourceId: text(given.resourceId, 'resourceId'),
    url: text(given.url, 'url'),
    headers: pairs(given.headers, 'headers'),
    proxies: texts(given.proxies, 'proxies'),
    storage: {
      bucket: text(storage.bucket, 'storage.bucket'),
      key: text(storage.key, 'storage.key'),
      metadata: pairs(storage.metadata, 'storage.metadata'),
    },
    tags: pairs(given.tags, 'tags'),
  };
}

function text(value: unknown, member: string): string {
  if (typeof value === 'string') return value;
  throw invalid(member, 'must be a string');
}

function texts(value: unknown, member: string): string[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw invalid(member, 'must be a list of strings');
}

function pairs(value: unknown, member: string): Pair[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.every(isPair)) return value;
  throw invalid(member, 'must be a list of pairs of a name and a value');
}

const invalid = (member: string, rule: string): PermanentError =>
  new PermanentError(`the task is not complete: ${member} ${rule}`, { code: 'INVALID_TASK' });
