import { BOOLEAN, DAY, duration, integer, LIST, SECOND, type Setting, setting, TEXT } from './setting.ts';

const HOUR = 3_600 * SECOND;
const LARGEST = 1_125_899_906_842_624;
const BUCKET = { type: 'text', form: 'bucket' } as const;

/** The sections of the ingest API and of what serves it. */
export const INGEST_SECTIONS = {
  ingest: {
    auth: setting(
      { type: 'text', choices: ['none', 'key'] },
      'none',
      'who may submit to /jobs: "none" is everyone who reaches the server, "key" requires an API key with the scope `jobs:write`',
    ),
    allow_open: setting(
      BOOLEAN,
      false,
      'start with `auth = "none"` on an address other than loopback; everyone who reaches the server can then submit downloads',
    ),
    max_resources: setting(integer(1, 100_000), 1_000, 'the most resources of one manifest'),
    max_manifest: setting({ type: 'size', maxBytes: 33_554_432 }, 5_242_880, 'the largest manifest, after decompression'),
    bucket: setting(BUCKET, 'fetchbox', 'the bucket of manifests, and of downloads whose job type has none'),
    org: setting(TEXT, 'default', 'the org of submissions without a tenant, by its slug'),
    allow_unlisted_job_types: setting(BOOLEAN, false, 'accept job types without a section; they use the default handler'),
    idempotency_window: setting(duration(), DAY, 'how long an idempotency key is remembered'),
    requests_per_minute: setting(
      integer(1),
      null,
      'requests of an org to /jobs per minute; beyond that the server returns 429; by default any number',
    ),
  },
  downloads: {
    host_concurrency: setting(integer(1, 10_000), 6, 'concurrent requests to one host, over all processes and orgs'),
    host_rate: setting(
      { type: 'number', above: 0, max: 1_000_000 },
      null,
      'requests to one host per second, over all processes and orgs; by default any number',
    ),
    max_size: setting({ type: 'size', maxBytes: LARGEST }, 5_368_709_120, 'the largest download'),
    timeout: setting(duration(SECOND, 7 * DAY), HOUR, 'the time limit for one download'),
    idle_timeout: setting(duration(100, HOUR), 30 * SECOND, 'a download that receives no byte for this long is ended and retried'),
    redirects: setting(integer(0, 20), 5, 'the most redirects of one download'),
  },
  operators: {
    auth: setting(
      { type: 'text', choices: ['token', 'none'] },
      'token',
      'who may call /operators: "token" requires the operator token or a key with the scope `operator`; "none" is everyone, and only if `server.host` is a loopback address',
    ),
    token: setting(
      { type: 'text', minLength: 16 },
      null,
      'the operator token; by default the one in the file `operator-token` of the data folder',
      {
        secret: 'whole',
        variables: ['MILLRACE_OPERATOR_TOKEN'],
      },
    ),
  },
  objects: {
    kind: setting(
      { type: 'text', choices: ['folder', 's3'] },
      'folder',
      'where objects are kept: in a folder, or in a service that speaks the S3 protocol',
    ),
    folder: setting(TEXT, null, 'the folder of objects; by default `objects` in the data folder'),
    endpoint: setting(TEXT, null, 'the address of the S3 service; by default the one of AWS'),
    region: setting(TEXT, 'us-east-1', 'the region of the S3 service'),
    access_key: setting(
      TEXT,
      null,
      'the id of the access key; needed for S3, because credentials of other tools (`AWS_ACCESS_KEY_ID`) are not used',
    ),
    secret_key: setting(TEXT, null, 'the secret of the access key; needed for S3', { secret: 'whole' }),
    force_path_style: setting(
      BOOLEAN,
      false,
      'put the bucket into the path and not into the host name, as most services other than AWS need it',
    ),
  },
} as const satisfies Record<string, Record<string, Setting>>;

/** The settings of one job type of the ingest API, `[job_types.<name>]` and its tables `proxy` and `storage`. */
export const JOB_TYPE_SETTINGS = {
  handler: setting(
    TEXT,
    null,
    'the path under which a module registered its handler with `registerIngestHandler`; by default the built-in one',
  ),
  default_headers: setting({ type: 'headers' }, null, 'headers of every download; those of a resource replace them'),
  idempotency_window: setting(duration(), null, 'how long an idempotency key is remembered; by default as `[ingest]` says'),
  'proxy.primary': setting(TEXT, null, 'the proxy pool that downloads use'),
  'proxy.fallbacks': setting(LIST, null, 'the pools that are tried after it, in order'),
  'storage.bucket': setting(BUCKET, null, 'the bucket of downloads; by default the one of `[ingest]`'),
  'storage.key_prefix': setting(
    { type: 'text', form: 'key prefix' },
    null,
    'the beginning of the keys of downloads; by default the name of the job type and a slash',
  ),
  options: setting(
    { type: 'object' },
    null,
    'options for the handler; `max_parallel_downloads` limits the concurrent downloads of one job for every handler',
  ),
} as const satisfies Record<string, Setting>;

/** The settings of one proxy pool, `[proxies."name"]`. */
export const PROXY_SETTINGS = {
  urls: setting(
    { type: 'list', of: 'proxy', needsOne: true },
    null,
    'the addresses of the pool, with their credentials: "http://user:secret@proxy.example.com:3128"',
    {
      secret: 'password',
    },
  ),
} as const satisfies Record<string, Setting>;

/** The settings of one tenant, `[ingest.tenants.<name>]`. */
export const TENANT_SETTINGS = {
  idempotency_window: setting(duration(), null, 'how long an idempotency key of the tenant is remembered'),
} as const satisfies Record<string, Setting>;
