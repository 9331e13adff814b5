import { join, resolve } from 'node:path';
import type { OperatorToken } from '../platform/operator-token.ts';
import type { FirstKey } from '../services/access/bootstrap.ts';

export type WelcomeFacts = {
  url: string;
  /** The database as it is shown, without a password. */
  database: string;
  /** The address that the commands name; null if it contains a password. */
  databaseUrl: string | null;
  /** The data folder; null without an embedded database. */
  home: string | null;
  firstKey: FirstKey | null;
  /** The file with the key of an earlier start; null if there is none. */
  keyFile: string | null;
  /** Whether clients of the execution API need a token to register. */
  registration: 'open' | 'token';
  /** The job types of the user's modules. */
  types: readonly string[];
  operator: OperatorToken;
};

export const keyFileIn = (home: string): string => join(home, 'api-key');

/** The first output of `millrace up`: addresses, files, and commands to copy. */
export function welcome(facts: WelcomeFacts): string[] {
  const { url, database, home, registration, types } = facts;
  const registers = registration === 'open' ? 'register themselves' : 'register with the token of this server';
  return [
    `  address   ${url}`,
    `  API page  ${url}/docs`,
    ...(home === null ? [] : [`  data      ${home}`]),
    `  database  ${database}`,
    ...keyLines(facts),
    ...operatorLines(facts.operator),
    ...(types.length === 0 ? [] : [`  handlers  ${types.join(', ')}`]),
    '',
    `In another terminal${needsUrl(facts) ? ' with the same DATABASE_URL' : ''}, submit a job that completes, and one that fails first:`,
    ...JOBS.map((payload) => `  npx millrace jobs submit simulate '${payload}' --wait${placeOption(facts)}`),
    '',
    `The API page shows every request. The execution API is at ${url}/v1; its clients ${registers}.`,
    'Stop with Ctrl-C. The data is kept.',
  ];
}

const JOBS = ['{"duration_ms":500}', '{"duration_ms":500,"failure":"TEMPORARY","fail_times":1}'];

function keyLines({ firstKey, keyFile }: WelcomeFacts): string[] {
  if (firstKey === null) return keyFile === null ? [] : [`  API key   in ${keyFile}`];
  const where = firstKey.file === null ? 'keep it: it is shown only once' : `saved in ${firstKey.file}; shown only once`;
  return [`  org       ${firstKey.orgSlug}`, `  API key   ${firstKey.key}`, `            (${where})`];
}

/** The token is shown by the start that made it. */
export function operatorLines({ token, file, isNew }: OperatorToken): string[] {
  if (file === null) return [];
  return isNew ? [`  operator  ${token}`, `            (saved in ${file}; shown only once)`] : [`  operator  token in ${file}`];
}

const needsUrl = ({ home, databaseUrl }: WelcomeFacts): boolean => home === null && databaseUrl === null;

/** How the commands find the database of this process. */
function placeOption({ home, databaseUrl }: WelcomeFacts): string {
  if (home === null) return databaseUrl === null ? '' : ` --database ${shellWord(databaseUrl)}`;
  return home === resolve('.millrace') ? '' : ` --home ${shellWord(home)}`;
}

const shellWord = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
