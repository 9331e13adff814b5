import { ALERT_KINDS } from '../../core/governance/alert.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import type { ItemPage, ShownAlert } from '../operator-answers.ts';
import { OPERATOR_OPTIONS, operatorClient } from '../operator-client.ts';
import { readInteger, readWord } from '../option-values.ts';
import { textTable } from '../text-table.ts';
import { reasonOf } from './fetch-jobs.ts';

const STATES = ['open', 'acknowledged', 'all'] as const;

const LIST_OPTIONS = {
  ...OPERATOR_OPTIONS,
  state: { type: 'string', value: 'STATE', help: 'open, acknowledged or all; default open' },
  kind: { type: 'string', value: 'KIND', help: `only alerts of this kind: ${ALERT_KINDS.join(', ')}` },
  org: { type: 'string', value: 'ORG', help: 'only alerts of this org, by its slug or its id' },
  limit: { type: 'string', value: 'N', help: 'how many alerts to show; default 50' },
} as const;

export const alertsList = defineCommand({
  name: 'alerts list',
  summary: 'list alerts, newest first',
  options: LIST_OPTIONS,
  examples: ['millrace alerts list', 'millrace alerts list --state all --kind slo --json'],
  async run({ values, out }: Invocation<typeof LIST_OPTIONS>) {
    const query = new URLSearchParams({ limit: String(readInteger(values.limit, 'limit') ?? 50) });
    const state = readWord(values.state, 'state', STATES) ?? 'open';
    if (state !== 'all') query.set('state', state);
    const kind = readWord(values.kind, 'kind', ALERT_KINDS);
    if (kind !== undefined) query.set('kind', kind);
    if (values.org !== undefined) query.set('org', values.org);
    const { items, next_cursor } = await operatorClient(values).get<ItemPage<ShownAlert>>(`/alerts?${query}`);
    out.answer({ items, next_cursor }, () => [
      ...textTable(
        ['alert', 'kind', 'severity', 'subject', 'count', 'last', 'state', 'message'],
        items.map((each) => [
          each.alert_id,
          each.kind,
          each.severity,
          each.subject,
          `${each.count}`,
          each.last_at,
          each.acknowledged_by === null ? each.state : `${each.state} by ${each.acknowledged_by}`,
          each.message,
        ]),
      ),
      ...(next_cursor === null ? [] : ['There are more. Raise --limit, or narrow the list.']),
    ]);
    return EXIT.ok;
  },
});

const ACK_OPTIONS = { ...OPERATOR_OPTIONS, reason: { type: 'string', value: 'TEXT', help: 'why; the audit trail keeps it' } } as const;

export const alertsAck = defineCommand({
  name: 'alerts ack',
  summary: 'mark an alert as seen',
  takes: 'ID',
  minArgs: 1,
  maxArgs: 1,
  options: ACK_OPTIONS,
  examples: ['millrace alerts ack ID --reason "the provider is down"'],
  async run({ values, args: [id = ''], out }: Invocation<typeof ACK_OPTIONS>) {
    const path = `/alerts/${encodeURIComponent(id)}/acknowledge`;
    const alert = await operatorClient(values).post<ShownAlert>(path, reasonOf(values.reason));
    out.answer(alert, () => [`The alert ${alert.alert_id} about ${alert.subject} is acknowledged by ${alert.acknowledged_by}.`]);
    return EXIT.ok;
  },
});
