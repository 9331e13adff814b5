import { once } from 'node:events';
import type { Engine } from '../../engine/engine.ts';
import { findOrgByName } from '../../services/access/list-orgs.ts';
import { readOverview } from '../../services/queues/overview.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { JsonView, type Look, lookUntilEnded, ScreenView } from '../live-view.ts';
import { readDurationMs } from '../option-values.ts';
import { listenForStop, orLeave } from '../stop-signals.ts';
import { PLAIN_SIZE, topScreen } from '../top-screen.ts';
import { UsageError } from '../usage-error.ts';

const OPTIONS = {
  org: { type: 'string', value: 'NAME|ID', help: 'only jobs of this org, by its slug or its id; default: all orgs' },
  every: { type: 'string', value: 'DURATION', help: 'how often to look; default 1s' },
  once: { type: 'boolean', help: 'print one screen and end, as without a terminal' },
} as const;

const MOST_FAILURES = 20;

export const top = defineCommand({
  name: 'top',
  summary: 'watch rates, queues, workers and failures, live',
  options: OPTIONS,
  details: [
    'Shows what happens now, over all processes, and fits a terminal of 80 by 24. Rates are of the last ten seconds. End it with Ctrl-C or q. With',
    '--json it prints one object each time it looks. While the database does not respond, it says so and retries.',
  ].join('\n'),
  examples: ['millrace top', 'millrace top --org acme --every 5s', 'millrace top --once'],
  isLongRunning: true,
  run,
});

async function run(invocation: Invocation<typeof OPTIONS>): Promise<number> {
  const { values, out } = invocation;
  const everyMs = readDurationMs(values.every, 'every') ?? 1_000;
  if (everyMs < 200) throw new UsageError('--every must be at least 200ms.', 'top');
  const isLive = values.once !== true && (process.stdout.isTTY === true || out.json);
  const ending = new AbortController();
  const stop = listenForStop(() => {});
  void stop.asked.then(() => ending.abort());
  const asked = once(ending.signal, 'abort');
  const work = withEngine(invocation, async (engine) => {
    const look = await lookAt(engine, values.org);
    if (isLive) await lookUntilEnded({ look, everyMs, ending, view: out.json ? new JsonView(out) : new ScreenView() });
    else await printOnce(invocation, look);
    return EXIT.ok;
  });
  return orLeave(work, { asked, code: isLive ? EXIT.ok : EXIT.interrupted }).finally(() => stop.release());
}

async function lookAt(engine: Engine, name: string | undefined): Promise<Look> {
  const org = name === undefined ? null : await findOrgByName(engine.database, name);
  return async () => {
    const overview = await readOverview(engine, { orgId: org?.id ?? null, failures: MOST_FAILURES });
    return { at: new Date(), org: org?.slug ?? null, overview };
  };
}

async function printOnce({ out }: Invocation<typeof OPTIONS>, look: Look): Promise<void> {
  const shown = await look();
  out.answer(shown, () => topScreen({ shown }, PLAIN_SIZE));
}
