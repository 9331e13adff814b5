/** A server that answers as a test says, on a real socket. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { type ClientOptions, MillraceClient } from '../../src/client/index.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests look at requests as they come
type Seen = { method: string; url: string; headers: IncomingMessage['headers']; body: any };
export type Script = (response: ServerResponse, seen: Seen, nth: number) => void;

export type ScriptedServer = { url: string; seen: Seen[]; client: MillraceClient };

/** Each request is answered by the script, which is told the how-manieth it is. */
export async function scripted(script: Script, options: Partial<ClientOptions> = {}): Promise<ScriptedServer> {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { method = '', url = '', headers } = request;
    const entry = { method, url, headers, body: text === '' ? undefined : JSON.parse(text) };
    seen.push(entry);
    script(response, entry, seen.length);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, seen, client: new MillraceClient({ baseUrl: url, apiKey: 'k', ...options }) };
}

export function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

export const ACCEPTED = { job_id: 'j1', status: 'ACCEPTED', state: 'SCHEDULED', created_at: 'x', scheduled_for: 'x' };

export const caught = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (error: unknown) => error,
  );
