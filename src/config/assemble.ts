import { dictionary, lookUp } from '../core/dictionary.ts';
import { AppError, type Issue } from '../core/errors.ts';
import { CATEGORY_NAMES, isCategoryName } from '../core/governance/categories.ts';
import { isJobTypeName } from '../core/ingest/job-type.ts';
import { nearestName, suggestion } from '../core/nearest-name.ts';
import { RESERVED_NAMES } from '../core/reserved-names.ts';
import { DEAD_LETTER_QUEUE } from '../core/submission-fields.ts';
import { CATEGORY_SETTINGS } from './category-settings.ts';
import { JOB_TYPE_SETTINGS, PROXY_SETTINGS, TENANT_SETTINGS } from './ingest-settings.ts';
import { QUEUE_SETTINGS } from './queue-settings.ts';
import { SECTIONS, type Section, type Setting, settingsOf } from './settings.ts';
import { type Read, readEnvironmentValue, readValue, type Value } from './values.ts';

/** A value and its source. */
type Entry = { readonly value: Value | null; readonly source: string };

/** Values by their full names: `server.port`, `queues."q:mail".order`. */
export type Entries = Map<string, Entry>;

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

type NamedTables = {
  section: string;
  tables: Readonly<Record<string, unknown>>;
  names: Set<string>;
  settings: Readonly<Record<string, Setting>>;
  file: string;
};

type Unknown = { name: string; section: string; key: string; source: string; known: readonly string[] };

/** Sections that consist of tables with names that the file gives. */
const NAMED_SECTIONS: readonly string[] = ['queues', 'job_types', 'proxies', 'categories'];

/** Tables of a job type whose members are settings. */
const INNER_TABLES: readonly string[] = ['proxy', 'storage'];

const flatten = (members: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  dictionary(
    Object.entries(members).flatMap(([key, value]): [string, unknown][] =>
      INNER_TABLES.includes(key) && isTable(value)
        ? Object.entries(value).map(([inner, each]) => [`${key}.${inner}`, each])
        : [[key, value]],
    ),
  );

/** Collects values, from the weakest source to the strongest, and all their problems. */
export class Assembly {
  readonly entries: Entries = new Map();
  readonly queueNames = new Set<string>();
  readonly jobTypes = new Set<string>();
  readonly pools = new Set<string>();
  readonly tenants = new Set<string>();
  readonly warnings: string[] = [];
  readonly #issues: Issue[] = [];

  constructor() {
    for (const { name, setting } of ALL_SETTINGS) this.entries.set(name, { value: setting.default, source: 'default' });
  }

  addFile(content: Readonly<Record<string, unknown>>, file: string): void {
    for (const [section, members] of Object.entries(content)) {
      if (!NAMED_SECTIONS.includes(section) && !(SECTIONS as string[]).includes(section)) {
        const hint = suggestion(section, [...SECTIONS, ...NAMED_SECTIONS]);
        this.#refuse(section, 'UNKNOWN_MEMBER', `there is no section [${section}]${hint}`, file);
      } else if (!isTable(members)) this.#refuse(section, 'INVALID_TYPE', `[${section}] must be a section`, file);
      else if (section === 'queues') this.#addNamed({ section, tables: members, names: this.queueNames, settings: QUEUE_SETTINGS, file });
      else if (section === 'proxies') this.#addNamed({ section, tables: members, names: this.pools, settings: PROXY_SETTINGS, file });
      else if (section === 'job_types') this.#addJobTypes(members, file);
      else if (section === 'categories') this.#addCategories(members, file);
      else if (section === 'ingest') this.#addIngest(members, file);
      else this.#addTable({ name: section, section, members, settings: settingsOf(section as Section), source: file });
    }
  }

  #addIngest({ tenants = {}, ...members }: Readonly<Record<string, unknown>>, file: string): void {
    this.#addTable({ name: 'ingest', section: 'ingest', members, settings: settingsOf('ingest'), source: file });
    const section = 'ingest.tenants';
    if (isTable(tenants)) this.#addNamed({ section, tables: tenants, names: this.tenants, settings: TENANT_SETTINGS, file });
    else this.#refuse(section, 'INVALID_TYPE', `[${section}] must be a section`, file);
  }

  /** The tables `proxy` and `storage` of a job type count as members of it: `proxy.primary`. */
  #addJobTypes(tables: Readonly<Record<string, unknown>>, file: string): void {
    for (const name of Object.keys(tables)) {
      if (isJobTypeName(name)) continue;
      const message = `job_types."${name}": a job type must have 1 to 100 letters, digits, dots, dashes and underscores`;
      this.#refuse(`job_types."${name}"`, 'INVALID_VALUE', message, file);
    }
    const flat = Object.entries(tables).map(([name, members]): [string, unknown] => [name, isTable(members) ? flatten(members) : members]);
    this.#addNamed({ section: 'job_types', tables: dictionary(flat), names: this.jobTypes, settings: JOB_TYPE_SETTINGS, file });
  }

  #addCategories(tables: Readonly<Record<string, unknown>>, file: string): void {
    const section = 'categories';
    for (const name of Object.keys(tables)) {
      if (isCategoryName(name)) continue;
      const message = `there is no category "${name}"${suggestion(name, CATEGORY_NAMES)}: write one of ${CATEGORY_NAMES.join(', ')}`;
      this.#refuse(`${section}."${name}"`, 'UNKNOWN_MEMBER', message, file);
    }
    const known = dictionary(Object.entries(tables).filter(([name]) => isCategoryName(name)));
    this.#addNamed({ section, tables: known, names: new Set(), settings: CATEGORY_SETTINGS, file });
  }

  #addNamed({ section, tables, names, settings, file }: NamedTables): void {
    for (const [given, members] of Object.entries(tables)) {
      const name = `${section}."${given}"`;
      if (!isTable(members)) {
        this.#refuse(name, 'INVALID_TYPE', `${name} must be a section: write [${section}."name"]`, file);
      } else if (RESERVED_NAMES.has(given)) {
        this.#refuse(name, 'RESERVED_NAME', `${name}: JavaScript reserves that name. Choose another one`, file);
      } else if (section === 'queues' && given === DEAD_LETTER_QUEUE) {
        this.#refuse(
          name,
          'INVALID_VALUE',
          `${name} cannot be configured: it shows the dead letters and starts no jobs. Remove the section`,
          file,
        );
      } else {
        names.add(given);
        this.#addTable({ name, section, members, settings, source: file });
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
      if (setting === undefined) this.#refuseKey({ name, section, key, source, known: Object.keys(settings) });
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
      this.#refuseKey({ name: section, section, key, source: variable, known: Object.keys(settingsOf(section)) });
    } else if (isOf('queues')) refuse('is not a setting: configure queues in the file, as [queues."name"]');
    else if (isOf('job_types')) refuse('is not a setting: configure job types in the file, as [job_types.name]');
    else if (isOf('categories')) refuse('is not a setting: configure categories in the file, as [categories.name]');
    else if (isOf('proxies')) refuse('is not a setting: configure proxy pools in the file, as [proxies."name"]');
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

  #refuseKey({ name, key, source, known }: Unknown): void {
    this.#refuse(`${name}.${key}`, 'UNKNOWN_MEMBER', `${name}.${key} is not known${suggestion(key, known)}`, source);
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
