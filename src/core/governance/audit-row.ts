import { hash as digest } from 'node:crypto';
import { canonicalJson } from '../canonical-json.ts';
import type { ActorType } from './actor.ts';

/** One thing that happened, before it has a place in the chain of its org. */
export type AuditEntry = {
  readonly at: Date;
  readonly event: string;
  readonly orgId: string;
  readonly projectId: string | null;
  readonly actorType: ActorType;
  readonly actorId: string;
  /** The part of Millrace that made a change nobody asked for at that moment: `worker:12`, `scheduler`, `reaper`. */
  readonly performedBy: string | null;
  readonly requestId: string | null;
  readonly correlationId: string | null;
  readonly jobId: string | null;
  readonly jobType: string | null;
  readonly attempt: number | null;
  /** Canonical JSON of an object. */
  readonly details: string;
};

/** A row of the audit trail. */
export type AuditRow = AuditEntry & {
  readonly id: number;
  /** 1, 2, 3 ... within the chain of the org. */
  readonly position: number;
  readonly recordedAt: Date;
  /** 64 hex digits. */
  readonly hash: string;
};

/** Stands for the hash before the first row of a chain. */
export const NO_HASH = '0'.repeat(64);

const UNREADABLE = '{"unreadable":true}';

/** The canonical text of details. A value that has no such text must not keep its row out of the trail. */
export function detailsText(value: unknown): string {
  try {
    const text = canonicalJson(value ?? {});
    return text.startsWith('{') ? text : canonicalJson({ value });
  } catch {
    return UNREADABLE;
  }
}

/** Most text needs no escape. */
const PLAIN = /^[\w .:/@+-]*$/;
const text = (value: string | null): string => (value === null ? 'null' : PLAIN.test(value) ? `"${value}"` : JSON.stringify(value));

/**
 * The bytes that a row is hashed with, as one line of JSON: these members in this order, no white space, strings as `JSON.stringify`
 * writes them. `docs/operations/audit.md` describes them for other programs, so they never change.
 */
export function lineOf(row: Omit<AuditRow, 'hash'>): string {
  return (
    `{"audit_id":"${row.id}","at":"${row.at.toISOString()}","event":${text(row.event)},"org_id":${text(row.orgId)},` +
    `"project_id":${text(row.projectId)},"actor_type":"${row.actorType}","actor_id":${text(row.actorId)},` +
    `"performed_by":${text(row.performedBy)},"request_id":${text(row.requestId)},"correlation_id":${text(row.correlationId)},` +
    `"job_id":${text(row.jobId)},"job_type":${text(row.jobType)},"attempt":${row.attempt},"details":${row.details},` +
    `"position":${row.position},"recorded_at":"${row.recordedAt.toISOString()}"}`
  );
}

/** The SHA-256 of the previous hash in hex, a line feed and the line. */
export const hashOf = (previous: string, line: string): string => digest('sha256', `${previous}\n${line}`);

type ExportPlace = { readonly previous: string; readonly first: number; readonly last: number };

/** The line of an export: the hashed line, then the two hashes, and the positions where the chain began and ended when it was exported. */
export const exportLineOf = (row: AuditRow, { previous, first, last }: ExportPlace): string =>
  `${lineOf(row).slice(0, -1)},"previous_hash":"${previous}","hash":"${row.hash}","first":${first},"last":${last}}\n`;
