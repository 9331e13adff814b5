/** A reader of the documentation: an empty project with the package, in which blocks run as they stand on the page. */
import { chmodSync, existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inject, onTestFinished } from 'vitest';
import { type Ended, type Running, start } from '../cli/program.ts';
import { freePort } from '../postgres/scratch.ts';
import { until } from '../until.ts';
import { type Block, ROOT } from './blocks.ts';

/** The address that the pages name. Tests use a free port. */
const ADDRESS = '127.0.0.1:8484';
/** Ports of other servers that the pages start. Another program may use them. */
const OTHER_PORTS = /\b(?:8585|9797)\b/g;

export class Reader {
  readonly folder: string;
  #address = ADDRESS;
  /** The free ports in the place of those that the page names. */
  readonly #ports = new Map<string, string>();
  readonly #background: { running: Running; place: string }[] = [];
  readonly #env: Record<string, string>;

  /** Without a database, programs start the embedded server in the folder. */
  constructor({ database }: { database?: string } = {}) {
    this.folder = mkdtempSync(join(tmpdir(), 'millrace-reader-'));
    chmodSync(this.folder, 0o755); // PostgreSQL may run as another user.
    onTestFinished(() => rm(this.folder, { recursive: true, force: true }));
    linkPackage(this.folder);
    // Curl would end well whatever the server returns.
    writeFileSync(join(this.folder, '.curlrc'), 'fail-with-body\nshow-error\n');
    this.#env = {
      ...(database === undefined ? {} : { DATABASE_URL: database }),
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
      MILLRACE_SERVER_PORT: '0',
      CURL_HOME: this.folder,
      npm_config_offline: 'true',
      npm_config_update_notifier: 'false',
      npm_config_loglevel: 'error',
    };
  }

  /** Starts `millrace up` in the folder, with the key where a start with the embedded server puts it. */
  async startServer(): Promise<void> {
    const up = this.#start(process.execPath, [join(inject('program'), 'bin/millrace.js'), 'up', '--json', '--port', '0']);
    const [line] = await up.said(/.*"event":"up".*\n/);
    const { url, key } = JSON.parse(line);
    this.#address = new URL(url).host;
    const home = join(this.folder, '.millrace');
    if (existsSync(join(home, 'api-key'))) return;
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, 'api-key'), key);
  }

  /** Runs a block to its end. One that runs until it is stopped stays in the background, and a file is only written. */
  async follow({ place, language, code, how }: Block): Promise<Ended | null> {
    for (const port of code.match(OTHER_PORTS) ?? []) if (!this.#ports.has(port)) this.#ports.set(port, String(await freePort()));
    const text = code
      .replaceAll(ADDRESS, this.#address)
      .replaceAll('listen(9000', 'listen(0')
      .replaceAll(OTHER_PORTS, (port) => this.#ports.get(port) as string);
    if (how.kind === 'not run') return null;
    if (how.kind === 'file') {
      writeFileSync(join(this.folder, how.name), text);
      return null;
    }
    const running = language === 'sh' ? this.#startShell(text) : this.#startProgram(text, place);
    if (how.kind === 'run') return running.ended;
    this.#background.push({ running, place });
    await until(`${place} prints "${how.prints}"`, () => running.stdout.includes(how.prints) || running.hasEnded);
    return null;
  }

  /** Stops what runs in the background, and returns the places of programs that had failed by then. */
  async stop(): Promise<string[]> {
    const failed = this.#background.filter(({ running }) => running.hasEnded).map(({ place }) => place);
    for (const { running } of this.#background) endGroup(running, 'SIGTERM');
    await Promise.all(this.#background.map(({ running }) => running.ended));
    return failed;
  }

  #startProgram(code: string, place: string): Running {
    const file = join(this.folder, `${place.replaceAll(/\W+/g, '-')}.mts`);
    writeFileSync(file, code);
    return this.#startShell(`node ${file}`);
  }

  /** Names that a block sets are there for the next one, as in one terminal. Names that nobody set are errors. */
  #startShell(code: string): Running {
    const names = join(this.folder, 'names');
    // Bash does not let a script set its own constants again.
    const keep = `declare -p | grep -v '^declare -[a-zA-Z]*r' > ${names}`;
    const script = `[ -e ${names} ] && . ${names}\nset -eu -o pipefail\n${code}\n${keep}`;
    return this.#start('bash', ['-c', script]);
  }

  #start(command: string, args: readonly string[]): Running {
    const running = start(args, { command: [command], cwd: this.folder, env: this.#env, leadsGroup: true });
    // A shell that is killed leaves the programs that it started.
    onTestFinished(() => endGroup(running, 'SIGKILL'));
    return running;
  }
}

function endGroup(running: Running, signal: NodeJS.Signals): void {
  try {
    running.killGroup(signal);
  } catch {
    // It has ended.
  }
}

function linkPackage(folder: string): void {
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, '.bin'), { recursive: true });
  symlinkSync(inject('program'), join(modules, 'millrace'));
  symlinkSync('../millrace/bin/millrace.js', join(modules, '.bin', 'millrace'));
  symlinkSync(fileURLToPath(new URL('node_modules/vitest/vitest.mjs', ROOT)), join(modules, '.bin', 'vitest'));
  for (const name of ['drizzle-orm', 'kysely', 'pg', 'postgres', 'vitest', 'zod'])
    symlinkSync(fileURLToPath(new URL(`node_modules/${name}`, ROOT)), join(modules, name));
  writeFileSync(join(folder, 'package.json'), '{ "dependencies": { "millrace": "0.1.0" } }');
}
