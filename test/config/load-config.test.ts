import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { AppError } from '../../src/core/errors.ts';

/** A folder with these files, gone after the test. */
function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-config-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const load = (toml: string, environment: Record<string, string> = {}) =>
  loadConfig({ folder: folderWith({ 'millrace.toml': toml }), environment });

function refusal(toml: string, environment: Record<string, string> = {}): AppError {
  try {
    load(toml, environment);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
  throw new Error('It was accepted.');
}

describe('the configuration', () => {
  it('needs no file: every setting has a default', () => {
    const { config, file } = loadConfig({ folder: folderWith({}), environment: {} });
    expect(file).toBeNull();
    expect(config).toMatchObject({
      server: {
        host: '127.0.0.1',
        port: 8484,
        requestTimeoutMs: 15_000,
        maxInFlight: 1_000,
        trustProxy: false,
        allowedHosts: [],
        corsOrigins: [],
      },
      database: { url: null, apiPool: null, workerPool: null },
      auth: { keyLifetimeMs: 90 * 86_400_000 },
      workers: { concurrency: null, queues: ['*'], drainGraceMs: 30_000 },
      simulation: { timeScale: 1 },
      limits: { requestsPerMinute: 600, payloadBytes: 1_048_576, bodyBytes: null },
      queues: [],
    });
  });

  it('is as the model has it unless said otherwise', () => {
    const { profile } = loadConfig({ folder: folderWith({}), environment: {} }).config;
    expect(profile).toMatchObject({
      ...{ timeoutMs: 1_800_000, leaseMs: 300_000, lifetimeMs: 604_800_000, maxAttempts: 3 },
      ...{ keyWindowMs: 86_400_000, retentionMs: 30 * 86_400_000 },
    });
  });

  it('reads every section', () => {
    const { config } = load(`
      [server]
      host = "0.0.0.0"
      port = 9000
      request_timeout = "PT5S"
      max_in_flight = 50
      body_memory = "200MB"
      min_upload_rate = "1KB"
      trust_proxy = 2
      allowed_hosts = ["jobs.example.com"]
      cors_origins = ["https://app.example"]
      [database]
      url = "postgres://u:p@db/x"
      api_pool = 5
      worker_pool = 7
      [auth]
      key_lifetime = "7d"
      [workers]
      concurrency = 4
      queues = ["q:mail", "q:default"]
      drain_grace = 10
      [simulation]
      time_scale = 0.01
      [limits]
      requests_per_minute = 20
      payload_size = "256KB"
      body_size = "2MB"
      [queue]
      execution_timeout = "10m"
      visibility_timeout = "1m"
      lifetime = "1d"
      max_attempts = 7
      idempotency_window = "12h"
      [retention]
      jobs = "5d"
      [queues."q:mail"]
      order = "fair"
      paused = true
      [queues.plain]
    `);
    expect(config).toMatchObject({
      server: {
        ...{ host: '0.0.0.0', port: 9_000, requestTimeoutMs: 5_000, maxInFlight: 50, trustProxy: 2, allowedHosts: ['jobs.example.com'] },
        ...{ corsOrigins: ['https://app.example'], bodyMemoryBytes: 209_715_200, minUploadRate: 1_024 },
      },
      database: { url: 'postgres://u:p@db/x', apiPool: 5, workerPool: 7 },
      auth: { keyLifetimeMs: 604_800_000 },
      workers: { concurrency: 4, queues: ['q:mail', 'q:default'], drainGraceMs: 10_000 },
      simulation: { timeScale: 0.01 },
      limits: { requestsPerMinute: 20, payloadBytes: 262_144, bodyBytes: 2_097_152 },
      profile: {
        ...{ timeoutMs: 600_000, leaseMs: 60_000, lifetimeMs: 86_400_000, maxAttempts: 7 },
        ...{ keyWindowMs: 43_200_000, retentionMs: 432_000_000 },
      },
      queues: [{ name: 'q:mail', order: 'fair', paused: true }, { name: 'plain' }],
    });
  });

  it('a queue may have a limit, or lose it', () => {
    const limit = '{ key = "to {payload.customer}", concurrency = 2, rate = 5, per = "1m" }';
    const { config } = load(`[queues.a]\nlimit = ${limit}\n[queues.b]\nlimit = "none"\n[queues.c]`);
    expect(config.queues.map((queue) => queue.limit)).toEqual([
      { key: 'to {payload.customer}', concurrency: 2, rate: 5, perMs: 60_000 },
      null,
      undefined,
    ]);
    expect(refusal('[queues.a]\nlimit = { key = "x", rte = 1 }').message).toContain('limit.rte is not known (did you mean rate?)');
    expect(refusal('[queues.a]\nlimit = 3').message).toContain('queues."a".limit is not valid');
  });

  it('reads the settings of queues, and zero removes one', () => {
    const { config } = load(`[queues."q:a"]\nconcurrency = 3\nrate = 2.5\ndepth_cap = 100\nslo = "30s"\nreserved_share = 0.2
      [queues.b]\nconcurrency = 0\nrate = 0\ndepth_cap = 0\nslo = "0s"\nreserved_share = 0`);
    expect(config.queues).toMatchObject([
      { name: 'q:a', concurrency: 3, rate: 2.5, depthCap: 100, sloSeconds: 30, reservedShare: 0.2 },
      { name: 'b', concurrency: null, rate: null, depthCap: null, sloSeconds: null, reservedShare: 0 },
    ]);
  });

  it('cannot be changed afterwards', () => {
    const { config } = load('[queues.a]\norder = "fifo"');
    for (const part of [config, config.server, config.profile, config.queues, config.queues[0], config.workers.queues]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });
});

describe('the sources', () => {
  it('win over each other: default, file, environment, command line', () => {
    const folder = folderWith({ 'millrace.toml': '[server]\nport = 1001\nhost = "::1"\nmax_in_flight = 5' });
    const environment = { MILLRACE_SERVER_PORT: '1002', MILLRACE_SERVER_HOST: '127.0.0.2' };
    const options = { 'server.port': { option: 'port', text: '1003' } };
    const { config, entries, file } = loadConfig({ folder, environment, options });
    expect(config.server).toMatchObject({ port: 1_003, host: '127.0.0.2', maxInFlight: 5, requestTimeoutMs: 15_000 });
    const sources = ['port', 'host', 'max_in_flight', 'request_timeout'].map((key) => entries.get(`server.${key}`)?.source);
    expect(sources).toEqual(['--port', 'MILLRACE_SERVER_HOST', file, 'default']);
  });

  it.each([
    [{ PORT: '7000' }, { server: { port: 7_000 } }],
    [{ PORT: '7000', MILLRACE_SERVER_PORT: '7001' }, { server: { port: 7_001 } }],
    [{ DATABASE_URL: 'postgres://a/b' }, { database: { url: 'postgres://a/b' } }],
    [{ MILLRACE_HOME: '/data' }, { database: { home: '/data' } }],
    [{ MILLRACE_LIMITS_REQUESTS_PER_MINUTE: '20' }, { limits: { requestsPerMinute: 20 } }],
    [{ MILLRACE_LIMITS_PAYLOAD_SIZE: '2mb' }, { limits: { payloadBytes: 2_097_152 } }],
    [{ MILLRACE_LIMITS_RESULT_SIZE: '4mb' }, { limits: { resultBytes: 4_194_304 } }],
    [{ MILLRACE_WORKERS_QUEUES: 'a, b' }, { workers: { queues: ['a', 'b'] } }],
    [{ MILLRACE_SERVER_TRUST_PROXY: '2' }, { server: { trustProxy: 2 } }],
    [{ MILLRACE_SERVER_TRUST_PROXY: 'False' }, { server: { trustProxy: false } }],
    [{ MILLRACE_SERVER_TRUST_PROXY: '10.0.0.0/8, ::1' }, { server: { trustProxy: ['10.0.0.0/8', '::1'] } }],
    [{ MILLRACE_SERVER_ALLOWED_HOSTS: 'jobs.example.com,millrace' }, { server: { allowedHosts: ['jobs.example.com', 'millrace'] } }],
    [{ MILLRACE_SERVER_TRUST_PROXY: '0' }, { server: { trustProxy: false } }],
    [{ MILLRACE_WORKERS_DRAIN_GRACE: '45' }, { workers: { drainGraceMs: 45_000 } }],
    [{ MILLRACE_QUEUE_LIFETIME: 'P2D' }, { profile: { lifetimeMs: 172_800_000 } }],
    [{ MILLRACE_SIMULATION_TIME_SCALE: '0.5' }, { simulation: { timeScale: 0.5 } }],
    [{ PORT: '' }, { server: { port: 8_484 } }],
  ])('include the environment: %j', (environment, expected) => {
    expect(loadConfig({ folder: folderWith({}), environment }).config).toMatchObject(expected);
  });

  it('are a file that is named, by option or by MILLRACE_CONFIG, or the one that is here', () => {
    const folder = folderWith({
      'millrace.toml': '[server]\nport = 1',
      'a.toml': '[server]\nport = 2',
      'b.toml': '[server]\nport = 3',
    });
    const portOf = (file?: string, environment = {}) => loadConfig({ folder, file, environment }).config.server.port;
    expect(portOf()).toBe(1);
    expect(portOf(undefined, { MILLRACE_CONFIG: 'a.toml' })).toBe(2);
    expect(portOf('b.toml', { MILLRACE_CONFIG: 'a.toml' })).toBe(3);
    expect(() => portOf('c.toml')).toThrow(`The file ${join(folder, 'c.toml')} does not exist.`);
  });
});

describe('the payload limit', () => {
  it('is 1 MB unless set, at most 16 MB, and a larger one is refused [GM-9.02] [GM-9.03]', () => {
    expect(load('').config.limits.payloadBytes).toBe(1_048_576);
    expect(load('[limits]\npayload_size = "16MB"').config.limits.payloadBytes).toBe(16_777_216);
    expect(refusal('[limits]\npayload_size = "16385KB"').code).toBe('INVALID_CONFIG');
  });
});

describe('a configuration that is wrong', () => {
  it.each([
    ['[sever]\nport = 1', 'there is no section [sever] (did you mean server?)'],
    ['port = 1', 'there is no section [port]'],
    ['[telemetry]\nlog_level = "loud"', 'telemetry.log_level must be'],
    ['[telemetry]\notlp_endpoint = "ftp://a"', 'telemetry.otlp_endpoint must be a web address such as "http://127.0.0.1:4318"'],
    ['[telemetry]\ntrace_sample = 2', 'telemetry.trace_sample must be'],
    ['[workers]\nqueues = []', 'workers.queues must have at least one item'],
    ['server = 5', '[server] must be a section'],
    ['[server]\nprot = 1', 'server.prot is not known (did you mean port?)'],
    ['[limits]\nrequest_per_minute = 1', 'limits.request_per_minute is not known (did you mean requests_per_minute?)'],
    ['[queues.a]\nordr = "fifo"', 'queues."a".ordr is not known (did you mean order?)'],
    ['[queues]\na = "fifo"', 'queues."a" must be a section: write [queues."name"]'],
    ['[queues.a]\nrate = -5', 'queues."a".rate must be a number from 0 to 1000000'],
    ['[queues."q:deadletter"]\nrate = 5', 'queues."q:deadletter" cannot be configured: it shows the dead letters'],
    ['[server]\nport = "80"', 'server.port must be a whole number from 0 to 65535'],
    ['[server]\nport = 65536', 'server.port must be a whole number from 0 to 65535'],
    ['[server]\nport = 1.5', 'server.port must be a whole number from 0 to 65535'],
    ['[server]\ntrust_proxy = "yes"', 'server.trust_proxy must be false, the number of proxies from 1 to 100, or a list'],
    ['[server]\ntrust_proxy = true', 'server.trust_proxy cannot be true, because callers could forge their address: write false'],
    ['[auth]\nbootstrap_token = "fifteen-letters"', 'auth.bootstrap_token must have at least 16 characters'],
    ['[server]\ntrust_proxy = -1', 'server.trust_proxy must be false, the number of proxies'],
    ['[server]\ntrust_proxy = 101', 'server.trust_proxy must be false, the number of proxies'],
    ['[server]\ntrust_proxy = []', 'server.trust_proxy must have at least one item'],
    ['[server]\ntrust_proxy = ["nginx"]', 'server.trust_proxy must be a list of addresses or ranges'],
    ['[server]\nallowed_hosts = ["https://jobs.example.com"]', 'server.allowed_hosts must be a list of host names'],
    ['[server]\nallowed_hosts = ["jobs.example.com:8484"]', 'server.allowed_hosts must be a list of host names'],
    ['[server]\nrequest_timeout = "15"', 'server.request_timeout is not valid: a duration in a string needs a unit'],
    ['[server]\nrequest_timeout = "1h"', 'server.request_timeout must be at most 10m'],
    ['[server]\nrequest_timeout = "0s"', 'server.request_timeout must be at least 10ms'],
    ['[limits]\npayload_size = 1024', 'limits.payload_size must be a size with a unit'],
    ['[limits]\npayload_size = "17MB"', 'limits.payload_size must be from 1B to 16MB'],
    ['[server]\nbody_memory = "95MB"', 'server.body_memory must be at least 100663296 bytes'],
    ['[server]\nbody_memory = "100MB"\n[limits]\npayload_size = "16MB"', 'server.body_memory must be at least 151781376 bytes'],
    ['[server]\nmin_upload_rate = 5', 'server.min_upload_rate must be a size with a unit'],
    ['[workers]\nqueues = "a"', 'workers.queues must be a list of strings'],
    ['[workers]\nconcurrency = 0', 'workers.concurrency must be a whole number from 1 to 10000'],
    ['[simulation]\ntime_scale = 0', 'simulation.time_scale must be a number greater than 0'],
    ['[queue]\nvisibility_timeout = "10ms"', 'queue.visibility_timeout must be at least 1s'],
    ['[queue]\nmax_attempts = 101', 'queue.max_attempts must be a whole number from 1 to 100'],
    ['[queues.a]\norder = "random"', 'queues."a".order must be one of "fifo", "fair"'],
    ['[server\nport = 1', 'is not TOML in line 1'],
    ['[server]\nport = 1\nport = 2', 'is not TOML in line 3'],
  ])('is refused with a sentence: %j', (toml, sentence) => {
    const error = refusal(toml);
    expect(error.code).toBe('INVALID_CONFIG');
    expect(error.message).toContain(sentence);
  });

  it.each([
    [{ MILLRACE_SERVER_PROT: '1' }, 'server.prot is not known (did you mean port?) (from MILLRACE_SERVER_PROT)'],
    [{ PORT: 'http' }, 'server.port must be a whole number from 0 to 65535 (from PORT)'],
    [{ MILLRACE_SERVER_TRUST_PROXY: 'maybe' }, 'server.trust_proxy must be a list of addresses or ranges'],
    [{ MILLRACE_SERVER_TRUST_PROXY: 'TRUE' }, 'server.trust_proxy cannot be true'],
    [{ MILLRACE_LIMIT_QUOTA: '1' }, 'MILLRACE_LIMIT_QUOTA is not a setting (did you mean MILLRACE_LIMITS_QUOTA?)'],
    [{ MILLRACE_SEVRER_PROT: '1' }, 'MILLRACE_SEVRER_PROT is not a setting (did you mean MILLRACE_SERVER_PORT?)'],
    [{ MILLRACE_HOEM: '/x' }, 'MILLRACE_HOEM is not a setting (did you mean MILLRACE_HOME?)'],
    [{ MILLRACE_CATEGORIES_X: 'x' }, 'MILLRACE_CATEGORIES_X is not a setting: configure categories in the file, as [categories.name]'],
    [{ MILLRACE_QUEUES_ORDER: 'fair' }, 'is not a setting: configure queues in the file, as [queues."name"]'],
    [{ MILLRACE_WORKERS_QUEUES: ',' }, 'workers.queues must '],
  ])('is refused in the environment too: %j', (environment, sentence) => {
    expect(refusal('', environment).message).toContain(sentence);
  });

  it('reports every wrong setting with the place it comes from', () => {
    const error = refusal('[server]\nport = -1\nhots = "x"', { MILLRACE_QUEUE_RATE: '5' });
    expect(error.details.map(({ field, code }) => [field, code])).toEqual([
      ['server.port', 'INVALID_VALUE'],
      ['server.hots', 'UNKNOWN_MEMBER'],
      ['queue.rate', 'UNKNOWN_MEMBER'],
    ]);
    expect(error.message).toMatch(/\(from .+millrace\.toml\)/);
  });

  it('ignores unknown environment variables, and warns about unknown ones with our prefix', () => {
    const others = { MILLRACE_TEST_DATABASE_URL: 'x', MILLRACE_KEY: 'k', MILLRACE_HOME: 'h', SERVER_PORT: 'z' };
    expect(load('', others).warnings).toEqual([]);
    // As Kubernetes names a service that is called millrace.
    const service = { MILLRACE_SERVICE_HOST: 'h', MILLRACE_SERVICE_PORT: '1', MILLRACE_PORT_8484_TCP_ADDR: 'a' };
    const strange = { MILLRACE_SOMETHING: 'y', MILLRACE_OPERATOR_IMAGE_TAG: 'v1', ...service };
    expect(load('', { ...others, ...strange }).warnings).toEqual(
      Object.keys(strange).map((name) => `${name} is not a setting of this version and has no effect.`),
    );
  });
});
