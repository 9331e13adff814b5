import { type Static, Type } from 'typebox';
import { ALERT_KINDS } from '../../core/governance/alert.ts';
import { formatTimestamp } from '../../core/timestamp.ts';
import { type Alert, acknowledgeAlert, findAlerts } from '../../services/alerts/read-alerts.ts';
import type { Http } from '../door.ts';
import { bodyMayBeAbsent } from '../shared/route-options.ts';
import { answer, word } from '../shared/shapes.ts';
import { AlertList, AlertView } from './alert-schemas.ts';
import { operatorAsking, operatorOf, orgOf } from './identity.ts';
import type { OperatorParts } from './parts.ts';
import { PAGE, Reason } from './schemas.ts';

const AlertQuery = Type.Object(
  {
    state: Type.Optional(word(['open', 'acknowledged'], 'Only alerts in this state.')),
    kind: Type.Optional(word(ALERT_KINDS, 'Only alerts of this kind.')),
    org: Type.Optional(Type.String({ maxLength: 100, description: 'The id or the slug of an org.' })),
    ...PAGE,
  },
  { additionalProperties: false },
);

const render = (alert: Alert): Static<typeof AlertView> => ({
  alert_id: alert.id,
  kind: alert.kind,
  severity: alert.severity,
  org_id: alert.orgId,
  subject: alert.subject,
  message: alert.message,
  count: alert.count,
  first_at: formatTimestamp(alert.firstAt),
  last_at: formatTimestamp(alert.lastAt),
  state: alert.state,
  acknowledged_at: alert.acknowledgedAt === null ? null : formatTimestamp(alert.acknowledgedAt),
  acknowledged_by: alert.acknowledgedBy,
});

export function alertRoutes(http: Http, { ingest, config }: OperatorParts): void {
  const list = {
    operationId: 'listAlerts',
    summary: 'List alerts, newest first',
    description: 'The key of an org sees the alerts of its org only. Alerts about the whole platform are for the operator token.',
    querystring: AlertQuery,
    response: { 200: answer(AlertList, 'A page of alerts.') },
  };
  http.get('/alerts', { schema: list, config }, async (request) => {
    const { state, kind, org, cursor, limit } = request.query;
    const filter = { orgId: await orgOf(ingest, operatorOf(request), org), state: state ?? null, kind: kind ?? null };
    const { alerts, nextCursor } = await findAlerts(ingest.engine, filter, { cursor: cursor ?? null, limit });
    return { items: alerts.map(render), next_cursor: nextCursor };
  });
  const acknowledge = {
    operationId: 'acknowledgeAlert',
    summary: 'Mark an alert as seen',
    description: 'Repeats change nothing. The same trouble in a later hour is a new alert.',
    params: Type.Object({ alert_id: Type.String({ description: 'The id of the alert.' }) }),
    body: Reason,
    response: { 200: answer(AlertView, 'The alert.') },
  };
  http.post('/alerts/:alert_id/acknowledge', { schema: acknowledge, config, ...bodyMayBeAbsent }, async (request) => {
    const { orgId } = operatorOf(request);
    const requester = operatorAsking(request, request.body.reason);
    return render(await acknowledgeAlert(ingest.engine, { id: request.params.alert_id, orgId, requester }));
  });
}
