/** The ingest API of a whole process: platform, HTTP server, a folder as object store, and an origin whose files it downloads. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { Output } from '../../src/cli/output.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import type { Database } from '../../src/ledger/driver/database.ts';
import { openApi } from '../../src/platform/api-server.ts';
import { openOperatorToken } from '../../src/platform/operator-token.ts';
import { openPlatform, type Platform } from '../../src/platform/platform.ts';
import { migratedDatabase, type TestDatabase } from '../ledger/test-database.ts';
import { until } from '../until.ts';

const TOKEN = 'operator-token-of-the-tests';

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
export type Answer = { status: number; body: any; headers: Headers };

export type Sent = { headers?: Record<string, string>; body?: string | Uint8Array | object; jobType?: string | null };

/** A server whose files are downloaded. A test answers its own paths. */
export class Origin {
  readonly #listeners = new Map<string, RequestListener>();
  readonly #server = createServer((request, response) => this.#answer(request, response));
  url = '';
  requests = 0;

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Answers the URL of a new path. */
  file(answer: string | RequestListener = 'hello'): string {
    const path = `/${randomBytes(6).toString('hex')}`;
    this.#listeners.set(
      path,
      typeof answer === 'string' ? (_, response) => response.setHeader('content-type', 'text/plain').end(answer) : answer,
    );
    return `${this.url}${path}`;
  }

  status(code: number): string {
    return this.file((_, response) => response.writeHead(code).end('no'));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    this.requests++;
    const listener = this.#listeners.get((request.url ?? '').replace(/\?.*/, ''));
    if (listener === undefined) response.writeHead(404).end('nothing here');
    else listener(request, response);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

export type IngestOptions = {
  toml?: string;
  environment?: Record<string, string>;
  concurrency?: number;
  /** A port of this machine that leads to the database. */
  reachedAt?: number;
};

export class IngestServer {
  readonly origin = new Origin();
  readonly folder = mkdtempSync(join(tmpdir(), 'millrace-ingest-'));
  platform!: Platform;
  url = '';
  #api: Awaited<ReturnType<typeof openApi>> | null = null;
  #database: TestDatabase | null = null;
  readonly #options: IngestOptions;

  constructor(options: IngestOptions = {}) {
    this.#options = options;
  }

  get database(): Database {
    return this.platform.database;
  }

  get databaseUrl(): string {
    return this.#database?.url ?? '';
  }

  async open(): Promise<void> {
    this.#database = await migratedDatabase();
    await this.origin.open();
    const { toml = '', environment = {}, concurrency = 4, reachedAt } = this.#options;
    const url = new URL(this.#database.url);
    if (reachedAt !== undefined) url.host = `127.0.0.1:${reachedAt}`;
    writeFileSync(join(this.folder, 'millrace.toml'), toml);
    const { config } = loadConfig({
      folder: this.folder,
      environment: {
        DATABASE_URL: url.href,
        MILLRACE_HOME: this.folder,
        MILLRACE_SERVER_PORT: '0',
        MILLRACE_EGRESS_ALLOW: '127.0.0.1/32',
        MILLRACE_OPERATOR_TOKEN: TOKEN,
        ...environment,
      },
    });
    const out = new Output({ json: true, verbose: false });
    out.event = () => {};
    out.note = () => {};
    this.platform = await openPlatform({ config, out, migrates: false, concurrency });
    this.platform.ingest.checkHandlers();
    this.#api = await openApi(this.platform, { config, out, operator: await openOperatorToken(config) });
    await this.platform.start();
    this.url = await this.#api.listen();
  }

  async close(): Promise<void> {
    await this.#api?.close();
    await this.platform?.close(0);
    await this.origin.close();
    this.#database?.drop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Sends a manifest, of the job type `default` unless told. */
  async submit({ headers = {}, body, jobType = 'default' }: Sent): Promise<Answer> {
    const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
    const response = await fetch(`${this.url}/jobs`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(jobType === null ? {} : { 'x-fetchbox-job-type': jobType }),
        ...headers,
      },
      body: bytes as string,
    });
    return { status: response.status, body: await response.json(), headers: response.headers };
  }

  /** Sends a manifest with these resources, and answers the id of its job. */
  async accepted(sent: Sent & { resources?: readonly object[] }): Promise<string> {
    const { status, body } = await this.submit({ body: manifest({ resources: sent.resources }), ...sent });
    if (status !== 202) throw new Error(`${status} ${JSON.stringify(body)}`);
    return body.job_id;
  }

  async operate(method: string, path: string, { token = TOKEN, body }: { token?: string | null; body?: object } = {}): Promise<Answer> {
    const response = await fetch(`${this.url}/operators${path}`, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    const isLines = response.headers.get('content-type')?.startsWith('application/x-ndjson') === true;
    const read = isLines
      ? text
          .trim()
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line))
      : JSON.parse(text);
    return { status: response.status, body: read, headers: response.headers };
  }

  get(path: string, token?: string | null): Promise<Answer> {
    return this.operate('GET', path, { token });
  }

  /** Answers the job once it has one of these statuses. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
  async reached(jobId: string, ...statuses: string[]): Promise<any> {
    // biome-ignore lint/suspicious/noExplicitAny: as above
    let seen: any;
    await until(`the ingest job ${jobId} is ${statuses.join(' or ')}`, async () => {
      seen = (await this.get(`/jobs/${jobId}`)).body;
      return statuses.includes(seen.status);
    });
    return seen;
  }

  /** The bytes of an object. */
  object(bucket: string, key: string): Buffer {
    return readFileSync(join(this.folder, 'objects', bucket, key));
  }

  /** The keys of all objects of a bucket that are not the store's own files. */
  objects(bucket: string): string[] {
    return readdirSync(join(this.folder, 'objects', bucket), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !join(entry.parentPath, entry.name).includes('/.%'))
      .map((entry) => join(entry.parentPath, entry.name));
  }
}

export const manifest = ({
  resources = [{ id: 'a', url: 'https://example.com/a' }],
  ...rest
}: Record<string, unknown> = {}): Record<string, unknown> => ({
  manifest_version: 'v1',
  metadata: { crawl: 1 },
  resources,
  ...rest,
});

/** Call once at the top of a test file. */
export function useIngest(options: IngestOptions = {}): IngestServer {
  const server = new IngestServer(options);
  beforeAll(() => server.open());
  afterAll(() => server.close());
  return server;
}
