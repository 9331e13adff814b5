import { DEFAULT_PRIORITY, isPriority, type Priority } from '../priority.ts';
import type { Pair } from './fetch-task.ts';

/** A section `[job_types.<name>]` of the configuration. */
export type IngestJobType = {
  readonly name: string;
  /** The path under which the program registers the handler; null: the default handler. */
  readonly handler: string | null;
  readonly defaultHeaders: readonly Pair[];
  /** Names of proxy pools in the order in which they are tried. */
  readonly proxies: readonly string[];
  /** Null: the bucket of `[ingest]`. */
  readonly bucket: string | null;
  readonly keyPrefix: string;
  /** Passed to the handler. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Null: the window of `[ingest]`. */
  readonly idempotencyWindowMs: number | null;
};

/** The settings of the ingest door. */
export type IngestSettings = {
  readonly auth: 'none' | 'key';
  readonly maxResources: number;
  readonly maxManifestBytes: number;
  readonly bucket: string;
  readonly allowsUnlisted: boolean;
  readonly idempotencyWindowMs: number;
  /** The requests of an org per minute; null: no limit. */
  readonly requestsPerMinute: number | null;
  /** The slug of the org of requests without a tenant. */
  readonly defaultOrg: string;
  readonly jobTypes: ReadonlyMap<string, IngestJobType>;
  /** The windows of idempotency keys by tenant, in milliseconds. */
  readonly tenantWindowsMs: ReadonlyMap<string, number>;
};

/** The job type that exists without a section in the configuration. */
export const SHIPPED_JOB_TYPE = 'default';

/** A job type is a part of object keys and paths, so it has few characters. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

export const isJobTypeName = (text: string): boolean => NAME.test(text);

/** A job type as it is without any settings. */
export const plainJobType = (name: string): IngestJobType => ({
  name,
  handler: null,
  defaultHeaders: [],
  proxies: [],
  bucket: null,
  keyPrefix: `${name}/`,
  options: {},
  idempotencyWindowMs: null,
});

/** The option that limits how many resources of one job are downloaded at the same time. */
const PARALLEL_OPTION = 'max_parallel_downloads';

export function parallelDownloadsOf({ options }: IngestJobType): number | null {
  const value = Object.hasOwn(options, PARALLEL_OPTION) ? options[PARALLEL_OPTION] : undefined;
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 ? value : null;
}

/** The default handler maps the attribute `priority` if it is one of the five words. */
export function priorityOf({ handler }: IngestJobType, attributes: Readonly<Record<string, unknown>>): Priority {
  const word = Object.hasOwn(attributes, 'priority') ? attributes.priority : undefined;
  const priority = typeof word === 'string' ? word.toUpperCase() : word;
  return handler === null && isPriority(priority) ? priority : DEFAULT_PRIORITY;
}
