import { dictionary } from '../dictionary.ts';
import type { FetchTask, Pair } from './fetch-task.ts';
import type { CompleteTask, DownloadTask, IngestHandler, IngestHandlerContext, IngestManifest, TaskStorage, Texts } from './handler.ts';
import type { IngestJobType } from './job-type.ts';
import type { Manifest } from './manifest.ts';
import { headerProblem } from './manifest.ts';
import { objectKeyOf } from './object-key.ts';

export type Building = {
  readonly jobId: string;
  readonly jobType: IngestJobType;
  /** The bucket of job types without one. */
  readonly bucket: string;
  readonly tenant: string | null;
  readonly handler: IngestHandler;
};

/** The list of a handler that cannot be run. The handler must be corrected, so the client gets 500. */
export class IllegalTasks extends Error {
  override readonly name = 'IllegalTasks';
}

/** Runs the handler of the job type on a manifest, and returns one task for each resource that it chose. */
export async function buildTasks(manifest: Manifest, building: Building): Promise<FetchTask[]> {
  const { handler, jobType, jobId, tenant } = building;
  const context: IngestHandlerContext = { jobType: jobType.name, options: jobType.options };
  const given: IngestManifest = {
    jobId,
    jobType: jobType.name,
    tenant,
    metadata: manifest.metadata,
    resources: manifest.resources.map(({ id, url, headers, tags }) => ({ id, url, headers: dictionary(headers), tags: dictionary(tags) })),
    attributes: manifest.attributes,
  };
  const prepared = (await handler.prepareManifest?.(given, context)) ?? given;
  if (!Array.isArray(prepared.resources)) throw new IllegalTasks(`prepareManifest of ${jobType.name} returned no list of resources`);
  const tasks = (await handler.buildTasks?.(prepared, context)) ?? prepared.resources.map(({ id }) => ({ resourceId: id }));
  if (!Array.isArray(tasks)) throw new IllegalTasks(`buildTasks of ${jobType.name} must return a list of tasks`);
  const resources = new Map(manifest.resources.map((resource) => [resource.id, resource]));
  const preparedById = new Map(prepared.resources.map((resource) => [resource.id, resource]));
  const seen = new Set<string>();
  return tasks.map((task: DownloadTask) => {
    const resource = resources.get(task?.resourceId);
    if (resource === undefined) throw illegal(jobType, task, 'is not the id of a resource of the manifest');
    if (seen.has(resource.id)) throw illegal(jobType, task, 'has more than one task');
    seen.add(resource.id);
    const own = preparedById.get(resource.id);
    const completed = complete({ task, url: own?.url ?? resource.url, ownHeaders: own?.headers, ownTags: own?.tags, resource, building });
    return toFetchTask(completed, building, handler.storage?.(completed, context));
  });
}

const illegal = ({ name }: IngestJobType, task: DownloadTask, message: string): IllegalTasks =>
  new IllegalTasks(`buildTasks of ${name}: the resource id ${JSON.stringify(task?.resourceId)?.slice(0, 200)} ${message}`);

type Completing = {
  task: DownloadTask;
  url: string;
  ownHeaders: Texts | undefined;
  ownTags: Texts | undefined;
  resource: Manifest['resources'][number];
  building: Building;
};

function complete({ task, url, ownHeaders, ownTags, resource, building }: Completing): CompleteTask {
  const { jobType, bucket, jobId } = building;
  const headers = mergeHeaders(jobType.defaultHeaders, pairsOf(ownHeaders) ?? resource.headers, pairsOf(task.headers) ?? []);
  const key = objectKeyOf({ keyPrefix: jobType.keyPrefix, jobId, resourceId: resource.id });
  const tags = task.tags ?? ownTags ?? dictionary(resource.tags);
  return {
    resourceId: resource.id,
    url: task.url ?? url,
    headers: dictionary(headers),
    proxy: task.proxy ?? jobType.proxies[0],
    storage: {
      bucket: task.storage?.bucket ?? jobType.bucket ?? bucket,
      key: task.storage?.key ?? key,
      metadata: dictionary([...Object.entries(tags), ...Object.entries(task.storage?.metadata ?? {})]),
    },
    tags,
  };
}

/** Later lists win. Names are compared without case. */
function mergeHeaders(...lists: readonly (readonly Pair[])[]): Pair[] {
  const merged = new Map<string, Pair>();
  for (const pair of lists.flat()) {
    merged.delete(pair[0].toLowerCase());
    merged.set(pair[0].toLowerCase(), pair);
  }
  return [...merged.values()];
}

function toFetchTask(task: CompleteTask, { jobId, jobType }: Building, hook: TaskStorage | undefined): FetchTask {
  const { bucket, key, metadata } = { ...task.storage, ...defined(hook) };
  const headers = Object.entries(task.headers);
  for (const [name, value] of headers) {
    const problem = typeof value === 'string' ? headerProblem(name, value) : { message: 'must be a string' };
    if (problem !== null) throw new IllegalTasks(`The handler of ${jobType.name}: the header ${name.slice(0, 100)} ${problem.message}`);
  }
  if (typeof task.url !== 'string' || typeof bucket !== 'string' || typeof key !== 'string' || bucket === '' || key === '') {
    throw new IllegalTasks(`The handler of ${jobType.name}: the task of ${task.resourceId.slice(0, 128)} needs a url, a bucket and a key`);
  }
  const fallbacks = jobType.proxies.slice(1);
  const first = task.proxy ?? jobType.proxies[0];
  return {
    jobId,
    jobType: jobType.name,
    resourceId: task.resourceId,
    url: task.url,
    headers,
    proxies: first === undefined ? [] : [first, ...fallbacks.filter((pool) => pool !== first)],
    storage: { bucket, key, metadata: textPairs(metadata) },
    tags: textPairs(task.tags),
  };
}

const pairsOf = (texts: Texts | undefined): Pair[] | undefined => (texts === undefined ? undefined : Object.entries(texts));

const textPairs = (texts: Texts): Pair[] => Object.entries(texts).map(([name, value]) => [name, String(value)]);

/** A hook may name some of the members. */
const defined = (hook: TaskStorage | undefined): TaskStorage => ({
  ...(hook?.bucket === undefined ? {} : { bucket: hook.bucket }),
  ...(hook?.key === undefined ? {} : { key: hook.key }),
  ...(hook?.metadata === undefined ? {} : { metadata: hook.metadata }),
});
