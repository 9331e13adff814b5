import { lookUp } from '../core/dictionary.ts';
import { AppError, type Issue } from '../core/errors.ts';
import { nearestName, suggestion } from '../core/nearest-name.ts';
import { RESERVED_NAMES } from '../core/reserved-names.ts';
import { QUEUE_SETTINGS, SECTIONS, type Section, type Setting, settingsOf } from './settings.ts';
import { type Read, readEnvironmentValue, readValue, type Value } from './values.ts';

/** A value and its source. */
type Entry = { readonly value: Value | null; readonly source: string };

/** Values by their full names: `server.port`, `queues."q:mail".order`. */
export type Entries = Map<string, Entry>;

/** Keys and sections of later versions. They are refused, so that a user does not expect an effect. */
export const NOT_YET: Readonly<Record<string, readonly string[]>> = {
  retention: ['audit', 'logs', 'deadletter'],
  queues: ['depth_cap', 'concurrency', 'rate'],
};
export const SECTIONS_NOT_YET: readonly string[] = ['ingest', 'operators', 'objects', 'telemetry', 'categories', 'job_types', 'proxies'];

const PREFIX = 'MILLRACE_';
/** Our variables that are not settings. */
const OTHER_VARIABLES = ['MILLRACE_CONFIG', 'MILLRACE_KEY', 'MILLRACE_TEST_DATABASE_URL'];

const ALL_SETTINGS = SECTIONS.flatMap((section) =>
  Object.entries(settingsOf(section)).map(([key, setting]) => {
    return { section, name: `${section}.${key}`, variable: variableOf(section, key), setting };
  }),
);
const SHORT_VARIABLES = [
  ...OTHER_VARIABLES,
  ...ALL_SETTINGS.flatMap(({ setting }) => setting.variables ?? []).filter((name) => name.startsWith(PREFIX)),
];
const OUR_VARIABLES = new Set([...SHORT_VARIABLES, ...ALL_SETTINGS.map(({ variable }) => variable)]);

/** Collects values, from the weakest source to the strongest, and all their problems. */
export class Assembly {
  readonly entries: Entries = new Map();
  readonly queueNames = new Set<string>();
  readonly warnings: string[] = [];
  readonly #issues: Issue[] = [];

  constructor() {
    for (const { name, setting } of ALL_SETTINGS) this.entries.set(name, { value: setting.default, source: 'default' });
  }

  addFile(content: Readonly<Record<string, unknown>>, file: string): void {
    for (const [section, members] of Object.entries(content)) {
      if (SECTIONS_NOT_YET.includes(section)) {
        this.#refuse(section, 'UNKNOWN_MEMBER', `[${section}] has no effect in this version: remove it`, file);
      } else if (section !== 'queues' && !(SECTIONS as string[]).includes(section)) {
        const hint = suggestion(section, [...SECTIONS, 'queues']);
        this.#refuse(section, 'UNKNOWN_MEMBER', `there is no section [${section}]${hint}`, file);
      } else if (!isTable(members)) this.#refuse(section, 'INVALID_TYPE', `[${section}] must be a section`, file);
      else if (section === 'queues') this.#addQueues(members, file);
      else this.#addTable({ name: section, section, members, settings: settingsOf(section as Section), source: file });
    }
  }

  #addQueues(queues: Readonly<Record<string, unknown>>, file: string): void {
    for (const [queue, members] of Object.entries(queues)) {
      const name = `queues."${queue}"`;
      if (!isTable(members)) {
        this.#refuse(name, 'INVALID_TYPE', `${name} must be a section: write [queues."name"]`, file);
      } else if (RESERVED_NAMES.has(queue)) {
        const message = `${name}: JavaScript reserves that name. Give the queue another one`;
        this.#refuse(name, 'RESERVED_NAME', message, file);
      } else {
        this.queueNames.add(queue);
        this.#addTable({ name, section: 'queues', members, settings: QUEUE_SETTINGS, source: file });
      }
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
    for (const { name, variable, setting } of ALL_SETTINGS) {
      // The full name comes last and wins.
      for (const source of [...(setting.variables ?? []), variable]) {
        const text = lookUp(environment, source);
        if (text) this.#set(name, readEnvironmentValue(text, setting.kind), source);
      }
    }
    for (const variable of Object.keys(environment)) {
      if (variable.startsWith(PREFIX) && !OUR_VARIABLES.has(variable)) this.#judgeUnknown(variable);
    }
  }

  /** Refuses a variable that looks like one of our settings. Others may belong to another program and get a warning. */
  #judgeUnknown(variable: string): void {
    const isOf = (section: string): boolean => variable.startsWith(variableOf(section, ''));
    const refuse = (message: string) => this.#refuse(variable, 'UNKNOWN_MEMBER', `${variable} ${message}`, 'the environment');
    const section = SECTIONS.find(isOf);
    if (section !== undefined) {
      const key = variable.slice(variableOf(section, '').length).toLowerCase();
      this.#refuseKey({ name: section, section, key, source: variable });
    } else if (SECTIONS_NOT_YET.some(isOf)) refuse('has no effect in this version: remove it');
    else if (isOf('queues')) refuse('is not a setting: configure queues in the file, as [queues."name"]');
    else {
      const nearest = nearestVariable(variable);
      if (nearest !== null) refuse(`is not a setting (did you mean ${nearest}?)`);
      else this.warnings.push(`${variable} is not a setting of this version and has no effect.`);
    }
  }

  /** Options of the command line, by the full name of their setting. */
  addOptions(options: Readonly<Record<string, { option: string; text: string | undefined }>>): void {
    for (const [name, { option, text }] of Object.entries(options)) {
      const [section, key] = name.split('.') as [Section, string];
      const setting = lookUp(settingsOf(section), key) as Setting;
      if (text === undefined) continue;
      // An empty text unsets an optional setting.
      if (text === '' && setting.default === null) this.entries.set(name, { value: null, source: `--${option}` });
      else this.#set(name, readEnvironmentValue(text, setting.kind), `--${option}`);
    }
  }

  #set(name: string, read: Read, source: string): void {
    if (read.ok) this.entries.set(name, { value: read.value, source });
    else this.#refuse(name, 'INVALID_VALUE', `${name} ${read.message}`, source);
  }

  #refuseKey({ name, section, key, source }: { name: string; section: string; key: string; source: string }): void {
    const known = Object.keys(section === 'queues' ? QUEUE_SETTINGS : settingsOf(section as Section));
    const isPlanned = lookUp(NOT_YET, section)?.includes(key) === true;
    const what = isPlanned ? 'has no effect in this version: remove it' : `is not known${suggestion(key, known)}`;
    this.#refuse(`${name}.${key}`, 'UNKNOWN_MEMBER', `${name}.${key} ${what}`, source);
  }

  #refuse(field: string, code: string, message: string, source: string): void {
    this.#issues.push({ field, code, message: `${message} (from ${source})` });
  }

  /** Throws one error with all problems. */
  check(): void {
    if (this.#issues.length > 0) throw invalidConfig(this.#issues);
  }
}

export function invalidConfig(issues: readonly Issue[]): AppError {
  const message = `The configuration is not valid: ${issues.map((issue) => issue.message).join('; ')}`;
  return new AppError('INVALID_CONFIG', { message, details: issues });
}

/** A misspelled setting has at least a similar section; other names may belong to another program. */
function nearestVariable(variable: string): string | null {
  const written = variable.slice(PREFIX.length);
  const [first = '', second] = written.split('_');
  const similar = ALL_SETTINGS.filter(({ section }) => nearestName(first, [section]) !== null);
  const names = second === undefined ? SHORT_VARIABLES : similar.map((setting) => setting.variable);
  const nearest = nearestName(
    written,
    names.map((name) => name.slice(PREFIX.length)),
  );
  return nearest === null ? null : `${PREFIX}${nearest}`;
}

function variableOf(section: string, key: string): string {
  return `${PREFIX}${section}_${key}`.toUpperCase();
}

const isTable = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
