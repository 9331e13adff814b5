import { resolve } from 'node:path';
import type { Pair } from '../core/ingest/fetch-task.ts';
import { type IngestJobType, type IngestSettings, plainJobType, SHIPPED_JOB_TYPE } from '../core/ingest/job-type.ts';
import type { Assembly } from './assemble.ts';

type Get = <T>(name: string) => T;

/** The settings of the ingest API, of downloads, of operators and of objects. */
export function ingestConfig({ entries, jobTypes, pools, tenants }: Assembly, folder: string) {
  const get: Get = <T>(name: string) => entries.get(name)?.value as T;
  const home = resolve(folder, get<string>('database.home'));
  return {
    ingest: {
      allowsOpen: get<boolean>('ingest.allow_open'),
      settings: ingestSettings(get, { jobTypes, tenants }),
      retention: {
        tasksMs: get<number>('retention.tasks'),
        ledgerMs: get<number | null>('retention.ledger') ?? get<number>('retention.jobs'),
        ledgerBytes: get<number>('retention.ledger_size'),
        logsMs: get<number>('retention.logs'),
        deadLettersMs: get<number>('retention.deadletter'),
      },
    },
    downloads: {
      host: { concurrency: get<number>('downloads.host_concurrency'), rate: get<number | null>('downloads.host_rate') },
      limits: {
        maxBytes: get<number>('downloads.max_size'),
        timeoutMs: get<number>('downloads.timeout'),
        idleTimeoutMs: get<number>('downloads.idle_timeout'),
        redirects: get<number>('downloads.redirects'),
      },
      pools: new Map([...pools].map((name) => [name, get<readonly string[] | undefined>(`proxies."${name}".urls`) ?? []])),
    },
    operators: { auth: get<'token' | 'none'>('operators.auth'), token: get<string | null>('operators.token') },
    objects: {
      kind: get<'folder' | 's3'>('objects.kind'),
      folder: resolve(folder, get<string | null>('objects.folder') ?? resolve(home, 'objects')),
      endpoint: get<string | null>('objects.endpoint'),
      region: get<string>('objects.region'),
      accessKey: get<string | null>('objects.access_key'),
      secretKey: get<string | null>('objects.secret_key'),
      forcePathStyle: get<boolean>('objects.force_path_style'),
    },
  };
}

type Names = Pick<Assembly, 'jobTypes' | 'tenants'>;

function ingestSettings(get: Get, { jobTypes, tenants }: Names): IngestSettings {
  const windows = [...tenants].map((name) => [name, get<number | undefined>(`ingest.tenants."${name}".idempotency_window`)] as const);
  return {
    auth: get<'none' | 'key'>('ingest.auth'),
    maxResources: get<number>('ingest.max_resources'),
    maxManifestBytes: get<number>('ingest.max_manifest'),
    bucket: get<string>('ingest.bucket'),
    allowsUnlisted: get<boolean>('ingest.allow_unlisted_job_types'),
    idempotencyWindowMs: get<number>('ingest.idempotency_window'),
    requestsPerMinute: get<number | null>('ingest.requests_per_minute'),
    defaultOrg: get<string>('ingest.org'),
    jobTypes: new Map([
      [SHIPPED_JOB_TYPE, plainJobType(SHIPPED_JOB_TYPE)],
      ...[...jobTypes].map((name): [string, IngestJobType] => [name, jobTypeNamed(name, get)]),
    ]),
    tenantWindowsMs: new Map(windows.filter((entry): entry is readonly [string, number] => entry[1] !== undefined)),
  };
}

function jobTypeNamed(name: string, get: Get): IngestJobType {
  const own = <T>(key: string): T | undefined => get<T | undefined>(`job_types."${name}".${key}`) ?? undefined;
  const plain = plainJobType(name);
  const primary = own<string>('proxy.primary');
  const headers = own<string>('default_headers');
  const options = own<string>('options');
  return {
    name,
    handler: own<string>('handler') ?? null,
    defaultHeaders: headers === undefined ? [] : (Object.entries(JSON.parse(headers)) as Pair[]),
    proxies: [...(primary === undefined ? [] : [primary]), ...(own<readonly string[]>('proxy.fallbacks') ?? [])],
    bucket: own<string>('storage.bucket') ?? null,
    keyPrefix: own<string>('storage.key_prefix') ?? plain.keyPrefix,
    options: options === undefined ? {} : JSON.parse(options),
    idempotencyWindowMs: own<number>('idempotency_window') ?? null,
  };
}
