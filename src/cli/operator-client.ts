import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import type { Config } from '../config/load-config.ts';
import { AppError, type ErrorCode } from '../core/errors.ts';
import { operatorTokenFile } from '../platform/operator-token.ts';
import type { CommonValues } from './command.ts';
import { settingsOf } from './connection.ts';
import type { AcceptedManifest } from './operator-answers.ts';

/** The options of commands that call the operators' API of a running server. */
export const OPERATOR_OPTIONS = {
  url: { type: 'string', value: 'URL', help: 'the server; default: the address of the configuration, http://127.0.0.1:8484' },
  token: {
    type: 'string',
    value: 'TOKEN',
    help: 'the operator token or an operator key; default: MILLRACE_OPERATOR_TOKEN, else the file in the data folder',
  },
} as const;

type Values = CommonValues & { readonly url?: string; readonly token?: string };

/** Calls a running server. */
export type OperatorClient = {
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body?: object): Promise<T>;
  /** The lines of a stream, each a JSON text. */
  lines(path: string, signal?: AbortSignal): AsyncGenerator<string>;
  /** Submits a manifest as it is. */
  submit(bytes: Buffer, headers: Record<string, string>): Promise<AcceptedManifest>;
};

export function operatorClient(values: Values): OperatorClient {
  const { config } = settingsOf(values);
  const base = (values.url ?? addressOf(config)).replace(/\/+$/, '');
  const authorization = (): Record<string, string> => {
    const token = values.token ?? tokenOf(config);
    return token === null ? {} : { authorization: `Bearer ${token}` };
  };
  const send = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const response = await fetch(`${base}${path}`, init).catch((cause: unknown) => {
      throw new AppError('UNAVAILABLE', {
        message: `No server responds at ${base}. Start it with "millrace up", or name another with --url.`,
        cause,
      });
    });
    if (response.ok) return response;
    throw failureOf(response.status, await response.text());
  };
  return {
    get: async <T>(path: string) => (await (await send(`/operators${path}`, { headers: authorization() })).json()) as T,
    post: async <T>(path: string, body: object = {}) => {
      const headers = { ...authorization(), 'content-type': 'application/json' };
      return (await (await send(`/operators${path}`, { method: 'POST', headers, body: JSON.stringify(body) })).json()) as T;
    },
    async *lines(path, signal) {
      const { body } = await send(`/operators${path}`, { headers: authorization(), ...(signal === undefined ? {} : { signal }) });
      if (body !== null) yield* linesOf(Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]));
    },
    submit: async (bytes, headers) =>
      (await (await send('/jobs', { method: 'POST', headers, body: new Uint8Array(bytes) })).json()) as AcceptedManifest,
  };
}

async function* linesOf(stream: Readable): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of stream.setEncoding('utf8')) {
    const parts = `${rest}${chunk}`.split('\n');
    rest = parts.pop() ?? '';
    yield* parts;
  }
  if (rest !== '') yield rest;
}

export function addressOf({ server: { host, port } }: Config): string {
  const shown = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host;
  return `http://${shown}:${port}`;
}

/** Null if there is none: the server may need none. */
function tokenOf({ operators, database }: Config): string | null {
  if (operators.token !== null) return operators.token;
  try {
    return readFileSync(operatorTokenFile(database.home), 'utf8').trim();
  } catch {
    return null;
  }
}

const CODES: ReadonlyMap<number, ErrorCode> = new Map([
  [400, 'INVALID_REQUEST'],
  [401, 'UNAUTHORIZED'],
  [403, 'FORBIDDEN'],
  [404, 'NOT_FOUND'],
  [409, 'CONFLICT'],
  [413, 'INVALID_REQUEST'],
  [429, 'QUOTA_EXCEEDED'],
]);

function failureOf(status: number, text: string): AppError {
  const message = messageIn(text) ?? `The server responded with ${status}.`;
  return new AppError(CODES.get(status) ?? 'UNAVAILABLE', { message });
}

function messageIn(text: string): string | null {
  try {
    return (JSON.parse(text) as { error?: { message?: string } }).error?.message ?? null;
  } catch {
    return null;
  }
}
