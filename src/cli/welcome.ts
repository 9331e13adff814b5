import { join } from 'node:path';
import type { FirstKey } from '../services/access/bootstrap.ts';

export type WelcomeFacts = {
  url: string;
  database: string;
  /** The data folder; null without an embedded database. */
  home: string | null;
  firstKey: FirstKey | null;
  /** The file with the key of an earlier start; null if there is none. */
  keyFile: string | null;
  /** Whether clients of the execution API need a token to register. */
  registration: 'open' | 'token';
};

export const keyFileIn = (home: string): string => join(home, 'api-key');

/** The first output of `millrace up`: addresses, files, and commands to copy. */
export function welcome(facts: WelcomeFacts): string[] {
  const { url, database, home } = facts;
  return [
    `  address   ${url}`,
    `  API page  ${url}/docs`,
    ...(home === null ? [] : [`  data      ${home}`]),
    `  database  ${database}`,
    ...keyLines(facts),
    '',
    'In another terminal, submit a job and show it with its history:',
    ...queueCommands(facts).map((line) => `  ${line}`),
    '',
    ...executionLines(facts),
    '',
    'Stop with Ctrl-C. The data is kept.',
  ];
}

function keyLines({ firstKey, keyFile }: WelcomeFacts): string[] {
  if (firstKey === null) return keyFile === null ? [] : [`  API key   in ${keyFile}`];
  const where = firstKey.file === null ? 'keep it: it is shown only once' : `saved in ${firstKey.file}; shown only once`;
  return [`  org       ${firstKey.orgSlug}`, `  API key   ${firstKey.key}`, `            (${where})`];
}

const JOB = `'{"type":"simulate","payload":{"duration_ms":500,"progress_steps":5}}'`;

function queueCommands(facts: WelcomeFacts): string[] {
  const { url } = facts;
  return [
    `KEY=${keyText(facts)}`,
    `JOB=$(curl -s ${url}/queue/v1/jobs -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -d ${JOB}); echo "$JOB"`,
    `ID=$(echo "$JOB" | ${memberOf('job_id')}); sleep 1`,
    `curl -s "${url}/queue/v1/jobs/$ID?include_result=true&include_history=true" -H "Authorization: Bearer $KEY"; echo`,
  ];
}

const EXECUTION = `'{"type":"EXECUTE","work_kind":"SUCCESS_FAST"}'`;
const memberOf = (name: string): string => `sed 's/.*"${name}":"\\([^"]*\\)".*/\\1/'`;

function executionLines({ url, registration }: WelcomeFacts): string[] {
  if (registration === 'token') return [`The execution API is at ${url}/v1; clients register with the token of this server.`];
  return [
    'The execution API has its own clients, which register themselves:',
    `  CLIENT=$(curl -s -X POST ${url}/v1/clients | ${memberOf('client_id')}); CLIENT_KEY=$(curl -s -X POST ${url}/v1/clients/$CLIENT/keys | ${memberOf('api_key')})`,
    `  curl -s ${url}/v1/jobs -H "Authorization: Bearer $CLIENT_KEY" -H 'Content-Type: application/json' -d ${EXECUTION}; echo`,
  ];
}

function keyText({ firstKey, keyFile, home }: WelcomeFacts): string {
  if (keyFile !== null) return `$(cat ${shellWord(keyFile)})`;
  const where = home === null ? '' : ` --home ${shellWord(home)}`;
  return firstKey?.key ?? `$(npx millrace keys create --org default --scopes all${where} | head -1)`;
}

const shellWord = (text: string): string => (/^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
