import { dictionary, lookUp } from '../dictionary.ts';
import { buildTasks, IllegalTasks } from './build-tasks.ts';
import type { FetchTask, Pair } from './fetch-task.ts';
import type { TaskStorage } from './handler.ts';
import { type IngestJobType, type IngestSettings, isJobTypeName, plainJobType } from './job-type.ts';
import { RESOURCE_LIMITS } from './manifest.ts';

/** A task as a direct producer inserted it. Nothing in it was checked. */
export type PublishedRow = {
  readonly id: number;
  readonly producer: string;
  readonly jobType: string | null;
  /** The producer's own id of the job. */
  readonly jobId: string;
  readonly resourceId: string | null;
  readonly url: string | null;
  readonly headers: unknown;
  readonly tags: unknown;
  readonly proxy: string | null;
  readonly storage: unknown;
  readonly manifestKey: string | null;
};

type Problem = { readonly code: string; readonly message: string };

export type ReadTask = { readonly ok: true; readonly task: FetchTask } | { readonly ok: false; readonly error: Problem };

/** The job type in the ledger of tasks whose job type cannot be a name. */
const NAMELESS = 'invalid';

export const ledgerTypeOf = (jobType: string | null): string => (jobType !== null && isJobTypeName(jobType) ? jobType : NAMELESS);

/** The id of a resource in the ledger. A task without a usable one is named after its row. */
export const resourceIdOf = ({ id, resourceId }: PublishedRow): string => (isResourceId(resourceId) ? resourceId : `task-${id}`);

const isResourceId = (id: string | null): id is string => id !== null && id !== '' && [...id].length <= RESOURCE_LIMITS.idCharacters;

type Reading = { readonly jobId: string; readonly settings: IngestSettings };

/**
 * Makes the task that workers run, with the headers, proxies and storage of its job type under its own. The handler of the job type has no
 * part in it. Only what cannot be run at all is refused; the content is the producer's responsibility.
 */
export async function readPublished(row: PublishedRow, { jobId, settings }: Reading): Promise<ReadTask> {
  const jobType = typeOf(row.jobType, settings);
  if (jobType === null) return refused('UNSUPPORTED_JOB_TYPE', `the job type ${shown(row.jobType)} is not in the configuration`);
  if (!isResourceId(row.resourceId)) {
    return refused('INVALID_TASK', `resource_id must have 1 to ${RESOURCE_LIMITS.idCharacters} characters, not ${shown(row.resourceId)}`);
  }
  if (row.url === null) return refused('INVALID_TASK', 'url is missing');
  try {
    const id = row.resourceId;
    const resource = { id, url: row.url, headers: pairsIn(row.headers, 'headers'), tags: pairsIn(row.tags, 'tags') };
    const task = { resourceId: id, ...(row.proxy === null ? {} : { proxy: row.proxy }), storage: storageIn(row.storage) };
    const manifest = { metadata: {}, attributes: {}, resources: [resource] };
    const handler = { buildTasks: () => [task] };
    const [made] = await buildTasks(manifest, { jobId, jobType, bucket: settings.bucket, tenant: null, handler });
    return { ok: true, task: made as FetchTask };
  } catch (error) {
    if (error instanceof IllegalTasks) return refused('INVALID_TASK', error.message);
    throw error;
  }
}

const refused = (code: string, message: string): ReadTask => ({ ok: false, error: { code, message: `The task was refused: ${message}.` } });

const shown = (text: string | null): string => (text === null ? 'nothing' : JSON.stringify(text.slice(0, 100)));

function typeOf(name: string | null, { jobTypes, allowsUnlisted }: IngestSettings): IngestJobType | null {
  if (name === null) return null;
  const known = jobTypes.get(name);
  if (known !== undefined) return known;
  return allowsUnlisted && isJobTypeName(name) ? plainJobType(name) : null;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

function pairsIn(given: unknown, field: string): Pair[] {
  if (given === null) return [];
  if (!isObject(given)) throw new IllegalTasks(`${field} must be an object of strings`);
  return Object.entries(given).map(([name, value]) => {
    if (typeof value !== 'string') throw new IllegalTasks(`${field} must be an object of strings, but ${shown(name)} is none`);
    return [name, value];
  });
}

function storageIn(given: unknown): TaskStorage {
  if (given === null) return {};
  if (!isObject(given)) throw new IllegalTasks('storage must be an object with bucket, key and metadata');
  const text = (name: string): string | undefined => {
    const value = lookUp(given, name) ?? undefined;
    if (value !== undefined && typeof value !== 'string') throw new IllegalTasks(`storage.${name} must be a string`);
    return value;
  };
  const metadata = dictionary(pairsIn(lookUp(given, 'metadata') ?? null, 'storage.metadata'));
  return { bucket: text('bucket'), key: text('key'), metadata };
}
