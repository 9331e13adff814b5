import { wholeOrg } from '../../core/owner.ts';
import type { Schedule } from '../../ledger/queues/schedules.ts';
import { listOrgs } from '../../services/access/list-orgs.ts';
import { allSchedules } from '../../services/schedules/read-schedules.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { withEngine } from '../connection.ts';
import { checkOrgOptions, chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { textTable } from '../text-table.ts';

const OPTIONS = { ...ONE_ORG_OPTION, 'all-orgs': { type: 'boolean', help: 'the schedules of every org' } } as const;

type Listed = Schedule & { org: string };

export const schedulesList = defineCommand({
  name: 'schedules list',
  summary: 'show the schedules and when they submit their next job',
  options: OPTIONS,
  examples: ['millrace schedules list', 'millrace schedules list --all-orgs --json'],
  async run(invocation: Invocation<typeof OPTIONS>) {
    const { values, out } = invocation;
    checkOrgOptions(values);
    const schedules = await withEngine(invocation, async (engine) => {
      const orgs = values['all-orgs'] === true ? await listOrgs(engine.database) : [await chosenOrg(engine, values)];
      const listed: Listed[] = [];
      for (const { id, slug } of orgs)
        listed.push(...(await allSchedules(engine, wholeOrg(id))).map((schedule) => ({ ...schedule, org: slug })));
      return listed;
    });
    const head = ['org', 'schedule', 'cron', 'time zone', 'type', 'next', 'last', 'missed', 'overlap'];
    out.answer({ schedules }, () => (schedules.length === 0 ? ['There are no schedules.'] : textTable(head, schedules.map(rowOf))));
    return EXIT.ok;
  },
});

const rowOf = ({ org, key, cron, timeZone, submission, nextAt, pausedAt, lastFiredAt, missed, overlap }: Listed): string[] => [
  org,
  key,
  cron,
  timeZone,
  String((submission as { type?: unknown } | null)?.type ?? ''),
  pausedAt === null ? nextAt.toISOString() : 'paused',
  lastFiredAt?.toISOString() ?? 'never',
  missed,
  overlap,
];
