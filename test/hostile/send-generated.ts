import { type Agent, request } from 'node:http';
import type { Contract } from '../http/contract.ts';
import type { GeneratedRequest } from './requests.ts';

/** `finding`: what is wrong with the answer; null if nothing is. */
export type Outcome = { status: number; finding: string | null };

const MAX_READ = 64 * 1_048_576;

/** Sends a request and holds the answer to the document. */
export async function sendGenerated(url: string, agent: Agent, generated: GeneratedRequest, contract: Contract): Promise<Outcome> {
  const what = `${generated.method} ${generated.template}`;
  try {
    const { status, type, text } = await exchange(url, agent, generated);
    return { status, finding: judge({ generated, status, type, text }, contract) };
  } catch (error) {
    return { status: 0, finding: `${what}: no answer (${(error as Error).message})` };
  }
}

type Answer = { status: number; type: string; text: string };

function exchange(url: string, agent: Agent, { method, target, headers, body }: GeneratedRequest): Promise<Answer> {
  const sized = body === null ? headers : { ...headers, 'content-length': body.length };
  return new Promise((resolve, reject) => {
    const sent = request(new URL(url), { agent, method, path: target, headers: sized }, (answer) => {
      const status = answer.statusCode ?? 0;
      const type = (answer.headers['content-type'] ?? '').split(';')[0] as string;
      const parts: Buffer[] = [];
      let length = 0;
      const end = () => resolve({ status, type, text: Buffer.concat(parts).toString() });
      // A stream of events goes on. Its status is all that is wanted.
      if (type === 'text/event-stream') {
        end();
        sent.destroy();
        return;
      }
      answer.on('data', (part: Buffer) => {
        length += part.length;
        if (length <= MAX_READ) parts.push(part);
      });
      answer.on('end', end).on('error', reject);
    });
    // A server may answer and close before it has read a large body.
    sent.on('error', reject).end(body ?? undefined);
  });
}

function judge({ generated, status, type, text }: Answer & { generated: GeneratedRequest }, { document }: Contract): string | null {
  const { method, template, target } = generated;
  const what = `${method} ${template} -> ${status}`;
  const shown = `${target.slice(0, 200)} ${generated.body?.subarray(0, 200).toString() ?? ''} => ${text.slice(0, 300)}`;
  if (status >= 500) return `${what}: ${shown}`;
  const answer = document.paths[template]?.[method.toLowerCase()]?.responses[status];
  if (answer === undefined) return `${what} is not documented: ${shown}`;
  const types = Object.keys(answer.content ?? {});
  if (text !== '' && !types.includes(type)) return `${what} is not documented as ${type}: ${shown}`;
  return null;
}
