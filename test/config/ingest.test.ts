import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Config, loadConfig } from '../../src/config/load-config.ts';
import { checkOpenAccess } from '../../src/config/open-access.ts';
import { isAppError } from '../../src/core/errors.ts';
import { registerIngestHandler } from '../../src/core/ingest/handler.ts';
import { IngestHandlers } from '../../src/platform/ingest-handlers.ts';

function load(toml: string, environment: Record<string, string> = {}): Config {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-config-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'millrace.toml'), toml);
  return loadConfig({ folder, environment }).config;
}

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (isAppError(error, 'INVALID_CONFIG')) return error.message;
    throw error;
  }
  throw new Error('It was accepted.');
}

/** As the document of FetchBox has it. */
const SAMPLE = `
[job_types.gallery]
handler = "fetchbox_handlers::gallery::GalleryHandler"
default_headers = { "User-Agent" = "FetchBox/1.0" }

[job_types.gallery.proxy]
primary = "proxies/eu-primary"
fallbacks = ["proxies/global", "proxies/emergency"]

[job_types.gallery.storage]
bucket = "fetchbox-gallery"
key_prefix = "gallery/"

[job_types.gallery.options]
max_parallel_downloads = 8
`;

describe('the sections of the ingest API', () => {
  it('load the sample of the document unchanged [FB-3.01] [FB-3.02] [FB-3.03] [FB-3.04] [FB-3.05] [FB-3.07] [FB-3.08] [FB-3.10] [C92]', () => {
    const { settings } = load(SAMPLE).ingest;
    expect([...settings.jobTypes.keys()]).toEqual(['default', 'gallery']);
    expect(settings.jobTypes.get('gallery')).toEqual({
      name: 'gallery',
      handler: 'fetchbox_handlers::gallery::GalleryHandler',
      defaultHeaders: [['User-Agent', 'FetchBox/1.0']],
      proxies: ['proxies/eu-primary', 'proxies/global', 'proxies/emergency'],
      bucket: 'fetchbox-gallery',
      keyPrefix: 'gallery/',
      options: { max_parallel_downloads: 8 },
      idempotencyWindowMs: null,
    });
  });

  it('name a handler that must be registered, and get its options when it is made [FB-3.11] [FB-3.13]', () => {
    const { settings } = load(SAMPLE.replace('GalleryHandler', 'OtherHandler')).ingest;
    registerIngestHandler('fetchbox_handlers::gallery::GalleryHandlers', {});
    expect(refusal(() => new IngestHandlers(settings).check())).toBe(
      'The configuration is not valid: job_types.gallery.handler is "fetchbox_handlers::gallery::OtherHandler", and no module registered a handler under that path (did you mean fetchbox_handlers::gallery::GalleryHandlers?). Call registerIngestHandler with it in a module, and name the module: "millrace up ./handlers.ts".',
    );
    const made: unknown[] = [];
    registerIngestHandler('fetchbox_handlers::gallery::OtherHandler', (context) => {
      made.push(context);
      return {};
    });
    new IngestHandlers(settings).check();
    expect(made).toEqual([{ jobType: 'gallery', options: { max_parallel_downloads: 8 } }]);
  });

  it('have the defaults of the document', () => {
    const { ingest, downloads, operators, objects } = load('');
    expect(ingest.settings).toMatchObject({
      auth: 'none',
      maxResources: 1_000,
      maxManifestBytes: 5_242_880,
      bucket: 'fetchbox',
      allowsUnlisted: false,
      idempotencyWindowMs: 86_400_000,
      requestsPerMinute: null,
    });
    const DAY = 86_400_000;
    expect(ingest.retention).toEqual({
      tasksMs: 7 * DAY,
      ledgerMs: 30 * DAY,
      ledgerBytes: 5_368_709_120,
      logsMs: 30 * DAY,
      deadLettersMs: 90 * DAY,
    });
    expect(downloads).toMatchObject({
      host: { concurrency: 6, rate: null },
      limits: { maxBytes: 5_368_709_120, timeoutMs: 3_600_000, idleTimeoutMs: 30_000, redirects: 5 },
    });
    expect(operators).toEqual({ auth: 'token', token: null });
    expect(objects).toMatchObject({ kind: 'folder', folder: expect.stringMatching(/\.millrace\/objects$/) });
  });

  it('follow retention.jobs unless retention.ledger is set [FB-4.02]', () => {
    expect(load('[retention]\njobs = "10d"').ingest.retention.ledgerMs).toBe(10 * 86_400_000);
    expect(load('[retention]\njobs = "10d"\nledger = "2d"').ingest.retention.ledgerMs).toBe(2 * 86_400_000);
  });

  it('take proxy pools with credentials, and never repeat them in an error', () => {
    const { pools } = load('[proxies."proxies/eu-primary"]\nurls = ["http://user:secret@p.example.com:3128"]').downloads;
    expect(pools.get('proxies/eu-primary')).toEqual(['http://user:secret@p.example.com:3128']);
    const message = refusal(() => load('[proxies.eu]\nurls = ["ftp://user:secret@p.example.com"]'));
    expect(message).toContain('proxies."eu".urls must be a list of addresses of proxies');
    expect(message).not.toContain('ftp:');
  });

  it.each([
    ['[job_types."../x"]', 'a job type must have'],
    ['[job_types.constructor]', 'JavaScript reserves that name'],
    ['[job_types.a]\nhandlers = "x"', 'job_types."a".handlers is not known (did you mean handler?)'],
    ['[job_types.a.storage]\nbuckt = "x"', 'job_types."a".storage.buckt is not known (did you mean storage.bucket?)'],
    ['[job_types.a.storage]\nbucket = "../x"', 'must be the name of a bucket'],
    ['[job_types.a.storage]\nkey_prefix = "../x/"', 'must be the beginning of object keys'],
    ['[job_types.a.storage]\nkey_prefix = "/x/"', 'must be the beginning of object keys'],
    ['[job_types.a]\ndefault_headers = { "a b" = "x" }', 'is not a name of an HTTP header'],
    ['[job_types.a]\ndefault_headers = { a = 1 }', 'must be a table of strings'],
    ['[job_types.a]\nidempotency_window = "soon"', 'job_types."a".idempotency_window is not valid'],
    ['[ingest]\nauth = "open"', 'ingest.auth must be one of "none", "key"'],
    ['[ingest]\nmax_resource = 1', 'ingest.max_resource is not known (did you mean max_resources?)'],
    ['[ingest.tenants.a]\nwindow = "1s"', 'ingest.tenants."a".window is not known'],
    ['[objects]\nkind = "nfs"', 'objects.kind must be one of "folder", "s3"'],
  ])('refuse %j', (toml, sentence) => {
    expect(refusal(() => load(toml))).toContain(sentence);
  });

  it.each([
    [{}, 'ingest.auth is "none" and the server would listen on 0.0.0.0'],
    [{ MILLRACE_INGEST_AUTH: 'key', MILLRACE_OPERATORS_AUTH: 'none' }, 'operators.auth is "none" and the server would listen on 0.0.0.0'],
  ])('refuse to listen for everyone with %j [C78]', (environment, sentence) => {
    const everywhere = { MILLRACE_SERVER_HOST: '0.0.0.0', MILLRACE_AUTH_ALLOW_OPEN: 'true' };
    expect(refusal(() => checkOpenAccess(load('', { ...everywhere, ...environment })))).toContain(sentence);
    checkOpenAccess(load('', { ...everywhere, MILLRACE_INGEST_ALLOW_OPEN: 'true' }));
    checkOpenAccess(load('', { ...everywhere, MILLRACE_INGEST_AUTH: 'key' }));
    checkOpenAccess(load('', { MILLRACE_OPERATORS_AUTH: 'none' }));
  });

  it('are written in the reference of the settings', () => {
    const page = readFileSync(new URL('../../docs/reference/config.md', import.meta.url), 'utf8');
    for (const heading of ['[ingest]', '[downloads]', '[operators]', '[objects]']) expect(page).toContain(`\n## ${heading}\n`);
  });
});
