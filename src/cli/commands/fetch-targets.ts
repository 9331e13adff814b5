import { defineCommand, EXIT, type Invocation } from '../command.ts';
import type { ItemPage, ShownHost, ShownPool, ShownTarget } from '../operator-answers.ts';
import { OPERATOR_OPTIONS, operatorClient } from '../operator-client.ts';
import { textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';
import { reasonOf } from './fetch-jobs.ts';

const OPTIONS = { ...OPERATOR_OPTIONS, reason: { type: 'string', value: 'TEXT', help: 'why, with pause and resume' } } as const;

/** `pause NAME` or `resume NAME`; null without arguments. */
function actionOf(args: readonly string[], command: string): { verb: 'pause' | 'resume'; name: string } | null {
  const [verb, name] = args;
  if (verb === undefined) return null;
  if ((verb === 'pause' || verb === 'resume') && name !== undefined) return { verb, name };
  throw new UsageError(`"${verb}" is not known here: use "pause NAME" or "resume NAME".`, command);
}

export const fetchHosts = defineCommand({
  name: 'fetch hosts',
  summary: 'show the hosts of downloads, or pause and resume one',
  takes: '[pause|resume HOST]',
  maxArgs: 2,
  options: OPTIONS,
  details: 'A host has its port unless that is the default of the scheme: cdn.example.com, 127.0.0.1:9000.',
  examples: ['millrace fetch hosts', 'millrace fetch hosts pause cdn.example.com', 'millrace fetch hosts resume cdn.example.com'],
  async run({ values, args, out }: Invocation<typeof OPTIONS>) {
    const client = operatorClient(values);
    const action = actionOf(args, 'fetch hosts');
    if (action !== null) {
      const result = await client.post<ShownTarget>(`/hosts/${encodeURIComponent(action.name)}/${action.verb}`, reasonOf(values.reason));
      out.answer(result, () => [`The host ${result.name} is ${result.paused ? 'paused' : 'in use'}.`]);
      return EXIT.ok;
    }
    const { items } = await client.get<ItemPage<ShownHost>>('/hosts?limit=1000');
    out.answer({ items }, () =>
      textTable(
        ['host', 'running', 'of', 'requests', 'errors', 'bytes', 'state'],
        items.map((host) => [
          host.host,
          `${host.running}`,
          `${host.concurrency}`,
          `${host.requests}`,
          `${host.errors}`,
          `${host.bytes}`,
          host.paused ? 'paused' : host.backoff_until === null ? '' : `waits until ${host.backoff_until}`,
        ]),
      ),
    );
    return EXIT.ok;
  },
});

export const fetchProxies = defineCommand({
  name: 'fetch proxies',
  summary: 'show the proxy pools, or pause and resume one',
  takes: '[pause|resume POOL]',
  maxArgs: 2,
  options: OPTIONS,
  examples: ['millrace fetch proxies', 'millrace fetch proxies pause proxies/eu-primary'],
  async run({ values, args, out }: Invocation<typeof OPTIONS>) {
    const client = operatorClient(values);
    const action = actionOf(args, 'fetch proxies');
    if (action !== null) {
      const result = await client.post<ShownTarget>(`/proxies/${encodeURIComponent(action.name)}/${action.verb}`, reasonOf(values.reason));
      out.answer(result, () => [`The proxy pool ${result.name} is ${result.paused ? 'paused' : 'in use'}.`]);
      return EXIT.ok;
    }
    const { items } = await client.get<ItemPage<ShownPool>>('/proxies');
    out.answer({ items }, () =>
      textTable(
        ['pool', 'address', 'score', 'successes', 'failures', 'state'],
        items.flatMap((pool) => rowsOf(pool)),
      ),
    );
    return EXIT.ok;
  },
});

function rowsOf(pool: ShownPool): string[][] {
  if (pool.addresses.length === 0) return [[pool.pool, '(not defined)', '', '', '', '']];
  return pool.addresses.map((each) => [
    pool.pool,
    each.address,
    each.score.toFixed(2),
    `${each.successes}`,
    `${each.failures}`,
    pool.paused ? 'paused' : each.ejected_until === null ? '' : `ejected until ${each.ejected_until}`,
  ]);
}
