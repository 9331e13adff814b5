/** Names that are agreed on for what is to come. They are refused, so that nobody believes them to work. */
export const NOT_YET: Readonly<Record<string, readonly string[]>> = {
  retention: ['audit', 'logs', 'deadletter'],
  queues: ['depth_cap', 'concurrency', 'rate'],
};

/** Sections of parts that are not there yet. */
export const SECTIONS_NOT_YET = [
  'ingest',
  'operators',
  'objects',
  'telemetry',
  'categories',
  'job_types',
  'proxies',
] as const;

/** Variables of ours that are no settings. */
export const OTHER_VARIABLES = ['MILLRACE_CONFIG', 'MILLRACE_KEY', 'MILLRACE_TEST_DATABASE_URL'] as const;
