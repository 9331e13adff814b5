/** The program as its users have it: a child process, its output and its exit code. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject, onTestFinished } from 'vitest';
import { inTime } from '../until.ts';

const BIN = join(inject('program'), 'bin/millrace.js');
const PATIENT = `--import ${new URL('./patient-sessions.js', import.meta.url)}`;
const AS_TERMINAL = `--import ${new URL('./as-terminal.js', import.meta.url)}`;

export type Ended = { code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string };
export type Surroundings = {
  database?: string;
  stdin?: string;
  cwd?: string;
  env?: Record<string, string>;
  /** What starts the program in place of this Node. */
  command?: readonly [string, ...string[]];
  /** Whether it leads a group of processes, as a command does that a person types. */
  leadsGroup?: boolean;
  /** Its input and output are a terminal of 80 by 24, and the input stays open for `type`. */
  terminal?: boolean;
};

/** Starts the program and does not wait for it. Whatever is left of it ends with the test. */
export function start(args: readonly string[], surroundings: Surroundings = {}): Running {
  const running = new Running(args, surroundings);
  onTestFinished(() => running.end());
  return running;
}

/** Runs the program to its end. */
export function run(args: readonly string[], surroundings: Surroundings = {}): Promise<Ended> {
  return start(args, surroundings).ended;
}

/** Runs the program with --json and answers what it printed. */
export async function ask<T>(args: readonly string[], surroundings: Surroundings): Promise<T> {
  const { code, stdout, stderr } = await run([...args, '--json'], surroundings);
  if (code !== 0) throw new Error(`millrace ${args.join(' ')} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

export class Running {
  stdout = '';
  /** All of it, with the log lines. */
  errors = '';
  readonly ended: Promise<Ended>;
  /** Whether all of its output has arrived. That may be later than its end. */
  #isClosed = false;
  readonly #child: ChildProcess;
  readonly #listeners = new Set<() => void>();

  constructor(args: readonly string[], surroundings: Surroundings) {
    const { database, stdin, cwd, env, command = [process.execPath, BIN], leadsGroup, terminal = false } = surroundings;
    const { DATABASE_URL: _url, MILLRACE_HOME: _home, NO_COLOR: _colour, npm_lifecycle_event: _npm, ...inherited } = process.env;
    const [file, ...first] = command;
    const NODE_OPTIONS = terminal ? `${PATIENT} ${AS_TERMINAL}` : PATIENT;
    this.#child = spawn(file, [...first, ...args], {
      cwd,
      detached: leadsGroup,
      env: { ...inherited, NODE_OPTIONS, ...(database === undefined ? {} : { DATABASE_URL: database }), ...env },
      stdio: 'pipe',
    });
    // A program that ends without reading its input is none of the test's business.
    this.#child.stdin?.on('error', () => {});
    if (!terminal) this.#child.stdin?.end(stdin ?? '');
    for (const name of ['stdout', 'stderr'] as const) {
      this.#child[name]?.setEncoding('utf8').on('data', (text: string) => {
        this[name === 'stderr' ? 'errors' : name] += text;
        for (const listener of this.#listeners) listener();
      });
    }
    this.ended = once(this.#child, 'close').then(([code, signal]) => {
      this.#isClosed = true;
      for (const listener of this.#listeners) listener();
      return { code, signal, stdout: this.stdout, stderr: this.stderr };
    });
  }

  /** What it writes to stderr for people. */
  get stderr(): string {
    return this.errors
      .split('\n')
      .filter((line) => !isLogLine(line))
      .join('\n');
  }

  /** The log lines that it has written to stderr. */
  get logs(): Record<string, unknown>[] {
    const whole = this.errors.slice(0, this.errors.lastIndexOf('\n') + 1);
    return whole
      .split('\n')
      .filter(isLogLine)
      .map((line) => JSON.parse(line));
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** As the terminal does at Ctrl-C, and a service manager at a stop. */
  killGroup(signal: NodeJS.Signals): void {
    process.kill(-this.#child.pid!, signal);
  }

  /** The keys that a person presses at its terminal. */
  type(keys: string): void {
    this.#child.stdin?.write(keys);
  }

  /** As a terminal that is gone does. */
  endInput(): void {
    this.#child.stdin?.end();
  }

  /** Nobody reads its output from here on. */
  stopReading(): void {
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
  }

  /** Resolves when the output so far matches. */
  said(pattern: RegExp): Promise<RegExpMatchArray> {
    return this.#heard('stdout', pattern);
  }

  /** The same of what it writes to stderr. */
  complained(pattern: RegExp): Promise<RegExpMatchArray> {
    return this.#heard('stderr', pattern);
  }

  async #heard(stream: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpMatchArray> {
    const { promise, resolve, reject } = Promise.withResolvers<RegExpMatchArray>();
    const look = () => {
      const match = this[stream].match(pattern);
      if (match !== null) resolve(match);
      else if (this.#isClosed) reject(new Error(`It ended without saying ${pattern}: ${this.stdout}${this.stderr}`));
    };
    this.#listeners.add(look);
    look();
    const heard = inTime(`the program writes ${pattern}`, promise, () => this.stdout + this.stderr);
    return heard.finally(() => this.#listeners.delete(look));
  }

  async end(): Promise<void> {
    if (!this.hasEnded) this.kill('SIGKILL');
    await this.ended;
  }
}

const isLogLine = (line: string): boolean => line.startsWith('{"level":');

/** A folder with these files, gone after the test. */
export function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-cli-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}
