import { posix } from 'node:path';
import { findCycles, type Graph } from './cycles.ts';
import { findModuleReferences, type ModuleReference, onlyReExports } from './module-references.ts';
import { lex } from './source-lexer.ts';
import type { SourceTree } from './source-tree.ts';

/** What each room may import besides itself. `index.ts` stands for src/index.ts, the only file outside a room. */
export const ALLOWED_ARROWS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  client: [],
  postgres: ['core'],
  config: ['core'],
  telemetry: ['core'],
  handlers: ['core'],
  egress: ['core'],
  objects: ['core'],
  ledger: ['core', 'postgres'],
  engine: ['core', 'ledger'],
  services: ['core', 'ledger', 'engine', 'telemetry'],
  library: ['core', 'postgres', 'ledger', 'engine', 'services', 'objects'],
  http: ['core', 'services', 'engine', 'telemetry'],
  testing: ['core', 'library', 'ledger', 'engine', 'postgres'],
  simulator: ['core'],
  platform: ['core', 'postgres', 'config', 'telemetry', 'handlers', 'egress', 'objects', 'ledger', 'engine', 'services', 'http'],
  cli: ['core', 'postgres', 'config', 'ledger', 'engine', 'services', 'library', 'simulator', 'platform'],
  'index.ts': ['library', 'core'],
};

/** The same between the folders of a room. Files that lie in the room itself are for all its folders, and may import any of them. */
export const FOLDER_ARROWS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  ledger: {
    driver: [],
    history: ['driver'],
    attempts: ['driver', 'history'],
    reads: ['driver', 'history', 'attempts'],
    access: ['driver'],
    queues: ['driver', 'attempts'],
    jobs: ['driver', 'history', 'attempts', 'reads', 'audit'],
    search: ['driver', 'history', 'reads'],
    webhooks: ['driver', 'history', 'reads'],
    downloads: ['driver'],
    audit: ['driver', 'history'],
    alerts: ['driver'],
    artifacts: ['driver'],
    ingest: ['driver'],
    'dead-letters': ['driver', 'history', 'reads', 'alerts'],
    operations: ['driver', 'reads', 'search', 'dead-letters'],
    upkeep: ['driver', 'history', 'jobs', 'webhooks'],
  },
  engine: {
    work: ['artifacts'],
    artifacts: [],
    follow: [],
    submit: ['work'],
    upkeep: ['work'],
    webhooks: ['submit'],
    downloads: [],
    operations: ['submit'],
  },
  services: {
    admission: [],
    access: ['admission'],
    jobs: ['admission'],
    execution: ['access', 'admission', 'jobs'],
    webhooks: ['execution'],
    queues: ['jobs'],
    metrics: ['admission'],
    schedules: ['jobs'],
    'dead-letters': [],
    operations: ['dead-letters', 'jobs'],
    ingest: ['admission', 'jobs'],
    audit: ['access'],
    alerts: [],
    maintenance: ['ingest', 'schedules'],
    artifacts: [],
  },
};

/** Rooms that take nothing, or next to nothing, from Node and npm. The client must run where there is no Node. */
const ONLY_PACKAGES: Readonly<Record<string, readonly string[]>> = { core: ['node:crypto', 'node:zlib'], client: [] };
/** Besides the ledger: what is asked of a server before there is a ledger on it. */
export const SQL_BEFORE_A_LEDGER: readonly string[] = ['check.ts', 'disposable.ts', 'embedded.ts'].map((name) => `src/postgres/${name}`);
// Upper case anywhere, lower case only at the start of a literal: prose may say "select a job from the list".
const SQL = [
  /\bSELECT\b[\s\S]*?\bFROM\b|\bINSERT\s+INTO\b|\bUPDATE\b[\s\S]+?\bSET\b|\bDELETE\s+FROM\b/,
  /^\s*(?:SELECT\s|(?:CREATE|DROP|ALTER)\s+(?:DATABASE|TABLE|INDEX|SCHEMA)\b)/,
  /^\s*(?:with\s+[\w, ]+\s+as\s*\(|select\b[\s\S]*?\bfrom\b|insert\s+into\b|update\s+[\s\S]+?\bset\b|delete\s+from\b)/,
];
const DRAWER_NAMES = new Set(['utils', 'util', 'helpers', 'helper', 'types', 'interfaces', 'common', 'lib']);
const LONGEST_FILE = 300;

export function checkArrows(tree: SourceTree): string[] {
  return [...tree].flatMap(([path, text]) => {
    const room = roomOf(path);
    if (!Object.hasOwn(ALLOWED_ARROWS, room)) return [`${path}: ${room} is not a room of the plan`];
    return referencesIn(text).flatMap((reference) => {
      const complaint = complainAbout({ path, room, reference });
      return complaint ? [`${path}: ${complaint}`] : [];
    });
  });
}

type Arrow = { path: string; room: string; reference: ModuleReference };

function complainAbout({ path, room, reference: { specifier } }: Arrow): string | null {
  const packages = ONLY_PACKAGES[room];
  if (specifier === null) return packages === undefined ? null : `${room} may not load a module it cannot name`;
  if (/^(?:[/#]|file:|millrace(?:\/|$))/.test(specifier)) return `${specifier} goes round the rooms; use a relative path`;
  if (!specifier.startsWith('.')) {
    return packages?.includes(specifier) === false ? `${room} may not import ${specifier}` : null;
  }
  const target = resolve(path, specifier);
  if (!target.startsWith('src/')) return `${specifier} leaves src/`;
  const targetRoom = roomOf(target);
  const isAllowed = targetRoom === room || ALLOWED_ARROWS[room]?.includes(targetRoom);
  return isAllowed ? null : `${room} may not import ${targetRoom} (${specifier})`;
}

type FolderArrow = { room: string; from: string; to: string };

/** From one folder of a room to another, as a file has it. */
function folderArrowsOf(path: string, text: string): FolderArrow[] {
  const [, room = '', from = '', ...rest] = path.split('/');
  if (rest.length === 0 || !Object.hasOwn(FOLDER_ARROWS, room)) return [];
  return referencesIn(text).flatMap(({ specifier }) => {
    if (!specifier?.startsWith('.')) return [];
    const [, targetRoom, to = '', ...others] = resolve(path, specifier).split('/');
    return targetRoom === room && others.length > 0 && to !== from ? [{ room, from, to }] : [];
  });
}

export function checkFolderArrows(tree: SourceTree): string[] {
  return [...tree].flatMap(([path, text]) =>
    folderArrowsOf(path, text)
      .filter(({ room, from, to }) => FOLDER_ARROWS[room]?.[from]?.includes(to) !== true)
      .map(({ room, from, to }) => `${path}: ${room}/${from} may not import ${room}/${to}`),
  );
}

/** Arrows that the plans allow and no file uses. */
export function unusedArrows(tree: SourceTree): string[] {
  const used = new Set<string>();
  for (const [path, text] of tree) {
    for (const { room, from, to } of folderArrowsOf(path, text)) used.add(`${room}/${from} -> ${room}/${to}`);
    for (const { specifier } of referencesIn(text))
      if (specifier?.startsWith('.')) used.add(`${roomOf(path)} -> ${roomOf(resolve(path, specifier))}`);
  }
  const rooms = Object.entries(ALLOWED_ARROWS).flatMap(([from, all]) => all.map((to) => `${from} -> ${to}`));
  const folders = Object.entries(FOLDER_ARROWS).flatMap(([room, plan]) =>
    Object.entries(plan).flatMap(([from, all]) => all.map((to) => `${room}/${from} -> ${room}/${to}`)),
  );
  return [...rooms, ...folders].filter((arrow) => !used.has(arrow));
}

export function checkSqlStaysInTheLedger(tree: SourceTree): string[] {
  return [...tree].flatMap(([path, text]) => {
    if (roomOf(path) === 'ledger' || SQL_BEFORE_A_LEDGER.includes(path)) return [];
    return lex(text)
      .filter(({ kind, text: literal }) => /^(?:string|template)$/.test(kind) && SQL.some((sql) => sql.test(literal)))
      .map(({ text: literal }) => `${path}: SQL outside ledger/: ${literal.trim().slice(0, 60)}`);
  });
}

export function checkFileCycles(tree: SourceTree): string[] {
  return findCycles(fileGraph(tree)).map((cycle) => `files import each other: ${cycle.join(', ')}`);
}

export function checkRoomCycles(tree: SourceTree): string[] {
  const rooms = new Map<string, string[]>();
  for (const [path, targets] of fileGraph(tree)) {
    const room = roomOf(path);
    const others = targets.map(roomOf).filter((other) => other !== room);
    rooms.set(room, [...(rooms.get(room) ?? []), ...others]);
  }
  return findCycles(rooms).map((cycle) => `rooms import each other: ${cycle.join(', ')}`);
}

export function checkFacade(tree: SourceTree): string[] {
  const text = tree.get('src/index.ts');
  if (text === undefined || onlyReExports(lex(text))) return [];
  return ['src/index.ts: holds something other than `export ... from`'];
}

export function checkNames(tree: SourceTree): string[] {
  return [...tree.keys()]
    .filter((path) => path.split('/').some((part) => DRAWER_NAMES.has(part.replace(/\..*$/, ''))))
    .map((path) => `${path}: named for a drawer; name it for the noun or the operation`);
}

export function checkLengths(tree: SourceTree): string[] {
  return [...tree].flatMap(([path, text]) => {
    const lines = text.startsWith('// Generated ') ? 0 : text.replace(/\n$/, '').split('\n').length;
    return lines > LONGEST_FILE ? [`${path}: ${lines} lines, more than ${LONGEST_FILE}`] : [];
  });
}

function fileGraph(tree: SourceTree): Graph {
  const targetsOf = (path: string, text: string) =>
    referencesIn(text).flatMap(({ kind, specifier }) =>
      specifier?.startsWith('.') && kind !== 'thread' ? [resolve(path, specifier)] : [],
    );
  return new Map([...tree].map(([path, text]) => [path, targetsOf(path, text)]));
}

function referencesIn(text: string): ModuleReference[] {
  return findModuleReferences(lex(text));
}

function resolve(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier);
}

function roomOf(path: string): string {
  return path.split('/')[1] ?? path;
}
