import { lookUp } from '../core/dictionary.ts';
import { AppError, type Issue } from '../core/errors.ts';
import { suggestion } from '../core/nearest-name.ts';
import { RESERVED_NAMES } from '../core/reserved-names.ts';
import { judgeVariable } from './judge-variable.ts';
import { NOT_YET, SECTIONS_NOT_YET } from './reserved-names.ts';
import { QUEUE_SETTINGS, SECTIONS, type Section, type Setting, settingsOf } from './settings.ts';
import { type Read, readEnvironmentValue, readValue, type Value } from './values.ts';

/** One value and where it came from. */
type Entry = { readonly value: Value | null; readonly source: string };

/** Values by their full names: `server.port`, `queues."q:mail".order`. */
export type Entries = Map<string, Entry>;

/** Gathers values from weak sources to strong ones, and everything that is wrong with them. */
export class Assembly {
  readonly entries: Entries = new Map();
  readonly queueNames = new Set<string>();
  /** Sentences about what is odd but harms nobody. */
  readonly warnings: string[] = [];
  readonly #issues: Issue[] = [];

  constructor() {
    for (const section of SECTIONS) {
      for (const [key, setting] of Object.entries(settingsOf(section))) {
        this.entries.set(`${section}.${key}`, { value: setting.default, source: 'default' });
      }
    }
  }

  addFile(content: Readonly<Record<string, unknown>>, file: string): void {
    for (const [section, members] of Object.entries(content)) {
      if ((SECTIONS_NOT_YET as readonly string[]).includes(section))
        this.#refuse(section, 'UNKNOWN_MEMBER', `[${section}] is not in use in this version: remove it`, file);
      else if (section !== 'queues' && !(SECTIONS as string[]).includes(section)) {
        this.#refuse(
          section,
          'UNKNOWN_MEMBER',
          `there is no section [${section}]${suggestion(section, [...SECTIONS, 'queues'])}`,
          file,
        );
      } else if (!isTable(members)) this.#refuse(section, 'INVALID_TYPE', `[${section}] must be a section`, file);
      else if (section === 'queues') this.#addQueues(members, file);
      else this.#addTable({ name: section, section, members, settings: settingsOf(section as Section), source: file });
    }
  }

  #addQueues(queues: Readonly<Record<string, unknown>>, file: string): void {
    for (const [queue, members] of Object.entries(queues)) {
      const name = `queues."${queue}"`;
      if (!isTable(members)) {
        this.#refuse(name, 'INVALID_TYPE', `a queue is configured in a section of its own, [queues."name"]`, file);
        continue;
      }
      if (RESERVED_NAMES.has(queue)) {
        const message = `${name}: JavaScript reserves that name. Give the queue another one`;
        this.#refuse(name, 'RESERVED_NAME', message, file);
        continue;
      }
      this.queueNames.add(queue);
      this.#addTable({ name, section: 'queues', members, settings: QUEUE_SETTINGS, source: file });
    }
  }

  #addTable(table: {
    name: string;
    section: string;
    members: Readonly<Record<string, unknown>>;
    settings: Readonly<Record<string, Setting>>;
    source: string;
  }): void {
    const { name, section, members, settings, source } = table;
    for (const [key, given] of Object.entries(members)) {
      const setting = lookUp(settings, key);
      if (setting === undefined) this.#refuseKey({ name, section, key, source });
      else this.#set(`${name}.${key}`, readValue(given, setting.kind), source);
    }
  }

  addEnvironment(environment: Readonly<Record<string, string | undefined>>): void {
    for (const section of SECTIONS) {
      for (const [key, { kind, variables = [] }] of Object.entries(settingsOf(section))) {
        // The name of its own comes last and wins.
        for (const variable of [...variables, variableOf(section, key)]) {
          const text = lookUp(environment, variable);
          if (text !== undefined && text !== '')
            this.#set(`${section}.${key}`, readEnvironmentValue(text, kind), variable);
        }
      }
    }
    for (const variable of Object.keys(environment)) this.#checkVariable(variable);
  }

  /** A variable that looks like a setting but is none would otherwise be ignored without a word. */
  #checkVariable(variable: string): void {
    const verdict = judgeVariable(variable);
    if (verdict.kind === 'key') this.#refuseKey({ name: verdict.section, ...verdict, source: variable });
    else if (verdict.kind === 'wrong') this.#refuse(variable, 'UNKNOWN_MEMBER', verdict.sentence, 'the environment');
    else if (verdict.kind === 'strange') this.warnings.push(verdict.sentence);
  }

  /** What was said on the command line, as `server.port` with its text. */
  addOptions(options: Readonly<Record<string, { option: string; text: string | undefined }>>): void {
    for (const [name, { option, text }] of Object.entries(options)) {
      const [section, key] = name.split('.') as [Section, string];
      const setting = lookUp(settingsOf(section), key) as Setting;
      if (text === undefined) continue;
      // An empty text takes back what can be left unset.
      if (text === '' && setting.default === null) this.entries.set(name, { value: null, source: `--${option}` });
      else this.#set(name, readEnvironmentValue(text, setting.kind), `--${option}`);
    }
  }

  #set(name: string, read: Read, source: string): void {
    if (read.ok) this.entries.set(name, { value: read.value, source });
    else this.#refuse(name, 'INVALID_VALUE', `${name} ${read.message}`, source);
  }

  #refuseKey({ name, section, key, source }: { name: string; section: string; key: string; source: string }): void {
    const known = section === 'queues' ? Object.keys(QUEUE_SETTINGS) : Object.keys(settingsOf(section as Section));
    const isToCome = lookUp(NOT_YET, section)?.includes(key) === true;
    const what = isToCome ? 'has no effect in this version: remove it' : `is not known${suggestion(key, known)}`;
    this.#refuse(`${name}.${key}`, 'UNKNOWN_MEMBER', `${name}.${key} ${what}`, source);
  }

  #refuse(field: string, code: string, message: string, source: string): void {
    this.#issues.push({ field, code, message: `${message} (from ${source})` });
  }

  /** Throws everything that was wrong at once. */
  check(): void {
    if (this.#issues.length === 0) return;
    const message = `The configuration is not valid: ${this.#issues.map((issue) => issue.message).join('; ')}`;
    throw new AppError('INVALID_CONFIG', { message, details: this.#issues });
  }
}

const variableOf = (section: string, key: string): string => `MILLRACE_${section}_${key}`.toUpperCase();

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
