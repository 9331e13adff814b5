import { Type } from 'typebox';
import { ALERT_KINDS, ALERT_SEVERITIES } from '../../core/governance/alert.ts';
import { named, shape, textOrNull, timestamp, timestampOrNull, word } from '../shared/shapes.ts';

export const AlertView = shape('Alert', {
  alert_id: Type.String({ format: 'uuid' }),
  kind: word(ALERT_KINDS, 'What is wrong.'),
  severity: word(ALERT_SEVERITIES),
  org_id: textOrNull('The org that it concerns; null if it concerns the whole platform.'),
  subject: Type.String({
    description: 'The thing that it is about.',
    examples: ['queue:q:default', 'webhook:0198c0de-0000-7000-8000-000000000001'],
  }),
  message: Type.String({ description: 'What is wrong, and what to do.' }),
  count: Type.Integer({ description: 'How often it was noticed within the hour of first_at.' }),
  first_at: timestamp('When it was first noticed.'),
  last_at: timestamp('When it was last noticed.'),
  state: word(['open', 'acknowledged'], 'Open until somebody acknowledges it.'),
  acknowledged_at: timestampOrNull('When somebody acknowledged it.'),
  acknowledged_by: textOrNull('Who did, such as user:operator or api_key:<id>.'),
});

export const AlertList = shape('AlertList', {
  items: Type.Array(named(AlertView)),
  next_cursor: textOrNull('The cursor of the next page; null on the last.'),
});
