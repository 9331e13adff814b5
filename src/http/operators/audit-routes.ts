import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { AppError } from '../../core/errors.ts';
import { auditOrg } from '../../services/audit/audit-org.ts';
import { exportAudit } from '../../services/audit/export-audit.ts';
import { listAudit } from '../../services/audit/list-audit.ts';
import { verifyAudit } from '../../services/audit/verify-audit.ts';
import type { Http } from '../door.ts';
import { AUDIT_FILTERS, AuditPage, AuditRowView, AuditVerdict } from '../shared/audit-schemas.ts';
import { readTime } from '../shared/query-values.ts';
import { renderAuditRow } from '../shared/render-audit.ts';
import { signalOf } from '../shared/request-signal.ts';
import { sendLines } from '../shared/send-lines.ts';
import { answer, named } from '../shared/shapes.ts';
import { operatorOf } from './identity.ts';
import type { OperatorParts } from './parts.ts';
import { PAGE } from './schemas.ts';

const Org = Type.Optional(Type.String({ maxLength: 100, description: 'The id or the slug of an org. Default: every org.' }));
const OrgQuery = Type.Object({ org: Org }, { additionalProperties: false });

/** Null: every org. The key of an org sees its own rows only. */
async function orgAsked({ engine }: OperatorParts['ingest'], request: FastifyRequest, named: string | undefined): Promise<string | null> {
  const { orgId } = operatorOf(request);
  if (named === undefined) return orgId;
  const asked = await auditOrg(engine.database, named);
  if (orgId === null || orgId === asked) return asked;
  throw new AppError('NOT_FOUND', { message: `There is no org "${named.slice(0, 100)}".` });
}

export function listAuditRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'listAuditOfOrgs',
    summary: 'List the audit trail, newest first',
    querystring: Type.Object({ ...AUDIT_FILTERS, org: Org, ...PAGE }, { additionalProperties: false }),
    response: { 200: answer(AuditPage, 'A page of rows.') },
  };
  http.get('/audit', { schema, config }, async (request) => {
    const { job_id, event, actor_id, since, until, org, cursor, limit } = request.query;
    const filter = {
      orgId: await orgAsked(ingest, request, org),
      projectId: null,
      jobId: job_id ?? null,
      event: event ?? null,
      actorId: actor_id ?? null,
      since: readTime(since, 'since'),
      until: readTime(until, 'until'),
    };
    const { rows, nextCursor } = await listAudit(ingest.engine, filter, { cursor: cursor ?? null, limit });
    return { items: rows.map(renderAuditRow), next_cursor: nextCursor };
  });
}

export function exportAuditRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'exportAudit',
    summary: 'Export the audit trail',
    description:
      'Sends one JSON object per line, oldest first, one chain after another. Each line also has previous_hash, first and last, which "millrace audit verify FILE" checks.',
    querystring: OrgQuery,
    response: { 200: { description: 'The rows.', content: { 'application/x-ndjson': { schema: named(AuditRowView) } } } },
  };
  http.get('/audit/export', { schema, config, exposeHeadRoute: false }, async (request, reply) => {
    const orgId = await orgAsked(ingest, request, request.query.org);
    const pages = exportAudit(ingest.engine.database, { orgId });
    // An error of the first page still gets an error response.
    const first = await pages.next();
    return sendLines(reply, linesOf(first, pages));
  });
}

async function* linesOf(first: IteratorResult<string>, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (first.done === true) return;
  yield first.value;
  yield* rest;
}

export function verifyAuditRoute(http: Http, { ingest, config }: OperatorParts): void {
  const schema = {
    operationId: 'verifyAudit',
    summary: 'Check the audit trail for changed and missing rows',
    description: 'Checks the chain of one org, or of every org. For a long trail use "millrace audit verify", which has no time limit.',
    querystring: OrgQuery,
    response: { 200: answer(AuditVerdict, 'What the check found.') },
  };
  http.get('/audit/verify', { schema, config }, async (request, reply) => {
    const orgId = await orgAsked(ingest, request, request.query.org);
    const { ok, rows, firstBad, lagSeconds, setAside } = await verifyAudit(ingest.engine.database, { orgId, signal: signalOf(reply) });
    const first_bad =
      firstBad === null
        ? null
        : { audit_id: firstBad.auditId, org_id: firstBad.orgId, position: firstBad.position, reason: firstBad.reason };
    return { ok, rows, first_bad, lag_seconds: lagSeconds, set_aside: setAside };
  });
}
