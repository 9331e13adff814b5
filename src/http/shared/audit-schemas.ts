import { Type } from 'typebox';
import { named, shape, textOrNull, timestamp, word } from './shapes.ts';

export const AuditRowView = shape(
  'AuditRow',
  {
    audit_id: Type.String({ description: 'The number of the row. It grows with time.' }),
    at: timestamp('When it happened.'),
    event: Type.String({ description: 'What happened.', examples: ['job.started', 'queue.paused'] }),
    org_id: Type.String({ description: 'The org; the nil uuid if the action concerned no org.' }),
    project_id: textOrNull('The project, if it belongs to one.'),
    actor_type: word(['user', 'system', 'api_key'], 'What kind of actor caused it.'),
    actor_id: Type.String({ description: 'Who submitted the job, or who asked for the action.' }),
    performed_by: textOrNull('What made the change, if it was not the request of the actor itself, such as worker:12.'),
    request_id: textOrNull('The request of the actor.'),
    correlation_id: textOrNull('The correlation id of the job or of the request.'),
    job_id: textOrNull('The job that it concerns.'),
    job_type: textOrNull('The type of that job.'),
    attempt: Type.Unsafe<number | null>({ type: ['integer', 'null'], description: 'How many attempts had started.' }),
    details: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      additionalProperties: true,
      description: 'More facts, without payloads and secrets.',
    }),
    position: Type.Integer({ description: 'The place of the row in the chain of its org, from 1.' }),
    recorded_at: timestamp('When the row was added to the trail.'),
    hash: Type.String({ description: 'SHA-256 over the hash of the row before it and this row.' }),
  },
  { description: 'A row of the audit trail.' },
);

export const AuditPage = shape(
  'AuditPage',
  {
    items: Type.Array(named(AuditRowView), { description: 'The rows, newest first.' }),
    next_cursor: textOrNull('The cursor of the next page; null on the last. A page may be short, or empty, while a next one exists.'),
  },
  { description: 'A page of the audit trail.' },
);

export const AuditVerdict = shape(
  'AuditVerdict',
  {
    ok: Type.Boolean({ description: 'Whether every chain is complete and unchanged.' }),
    rows: Type.Integer({ description: 'How many rows were checked.' }),
    first_bad: Type.Unsafe<{ audit_id: string | null; org_id: string; position: number; reason: string } | null>({
      type: ['object', 'null'],
      properties: {
        audit_id: { type: ['string', 'null'], description: 'The number of the row; null if the row is missing.' },
        org_id: { type: 'string', description: 'The org of the chain.' },
        position: { type: 'integer', description: 'The place of the row in the chain.' },
        reason: { type: 'string', description: 'What is wrong with it.' },
      },
      required: ['audit_id', 'org_id', 'position', 'reason'],
      additionalProperties: false,
      description: 'The first row that is wrong.',
    }),
    lag_seconds: Type.Number({ description: 'The age of the oldest event that is not in the trail yet.' }),
    set_aside: Type.Integer({ description: 'Events that could not be added to the trail, at most 1000.' }),
  },
  { description: 'What a check of the audit trail found.' },
);

const Time = (description: string) =>
  Type.Optional(Type.String({ description: `${description} RFC 3339.`, examples: ['2024-01-15T10:30:00Z'] }));

/** The filters of both lists. */
export const AUDIT_FILTERS = {
  job_id: Type.Optional(Type.String({ maxLength: 100, description: 'Only rows of this job.' })),
  event: Type.Optional(Type.String({ maxLength: 100, description: 'Only this event.', examples: ['job.failed'] })),
  actor_id: Type.Optional(Type.String({ maxLength: 300, description: 'Only what this actor caused.' })),
  since: Time('At or after this time.'),
  until: Time('Before this time.'),
};
