import { Type } from 'typebox';
import type { Engine } from '../../engine/engine.ts';
import { listAudit } from '../../services/audit/list-audit.ts';
import type { Http } from '../door.ts';
import { AUDIT_FILTERS, AuditPage } from '../shared/audit-schemas.ts';
import { readTime } from '../shared/query-values.ts';
import { renderAuditRow } from '../shared/render-audit.ts';
import { callerOf, needs } from './operation.ts';
import { answer, errorResponses } from './schemas/error.ts';
import { Cursor, Limit } from './schemas/shapes.ts';

const schema = {
  operationId: 'listAudit',
  summary: 'List the audit trail, newest first',
  description: 'The rows of the org of the key. A key of one project sees the rows of that project.',
  querystring: Type.Object({ ...AUDIT_FILTERS, cursor: Type.Optional(Cursor), limit: Limit }, { additionalProperties: false }),
  response: { 200: answer(AuditPage, 'A page of rows.'), ...errorResponses() },
};

export function listAuditRoute(http: Http, engine: Engine): void {
  http.get('/audit', { schema, ...needs('audit:read') }, async (request) => {
    const { job_id, event, actor_id, since, until, cursor, limit } = request.query;
    const filter = {
      ...callerOf(request).owner,
      jobId: job_id ?? null,
      event: event ?? null,
      actorId: actor_id ?? null,
      since: readTime(since, 'since'),
      until: readTime(until, 'until'),
    };
    const { rows, nextCursor } = await listAudit(engine, filter, { cursor: cursor ?? null, limit });
    return { items: rows.map(renderAuditRow), next_cursor: nextCursor };
  });
}
