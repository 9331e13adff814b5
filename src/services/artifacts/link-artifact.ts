import { noSuchArtifact } from '../../core/artifact.ts';
import { type DurationInput, durationMs } from '../../core/duration.ts';
import { AppError, invalidRequest } from '../../core/errors.ts';
import type { Requester } from '../../core/governance/audit-action.ts';
import { isUuid } from '../../core/ids.ts';
import type { Owner } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { type FoundArtifact, findArtifact } from '../../ledger/artifacts/artifacts.ts';
import { recordActions } from '../../ledger/audit/record-action.ts';
import { readClock } from '../../ledger/driver/clock.ts';
import { sealOf } from '../../ledger/driver/seal.ts';
import { readArtifact } from './read-artifacts.ts';

const DEFAULT_MS = 15 * 60_000;
const SHORTEST_MS = 1_000;
const LONGEST_LINK_MS = 7 * 86_400_000;

/** A link is good for one artifact. */
const scopeOf = (id: string): string => `artifact link ${id.toLowerCase()}`;

export type LinkParams = Owner & { readonly id: string; readonly expiresIn?: DurationInput; readonly requester: Requester };

/** The secret part of a link to an artifact, and when it ends. */
export type ArtifactLink = { readonly token: string; readonly expiresAt: Date };

/** Makes a link that works without a key. It ends with the artifact at the latest. */
export async function linkArtifact(engine: Engine, { id, expiresIn, requester, ...owner }: LinkParams): Promise<ArtifactLink> {
  const lastsMs = expiresIn === undefined ? DEFAULT_MS : durationMs(expiresIn, 'expires_in');
  if (lastsMs < SHORTEST_MS || lastsMs > LONGEST_LINK_MS) {
    throw invalidRequest({ field: 'expires_in', code: 'OUT_OF_RANGE', message: 'expires_in must be between 1 second and 7 days.' });
  }
  const { artifact } = await readArtifact(engine, { ...owner, id });
  const db = engine.database.api;
  const now = await readClock(db);
  const expiresAt = new Date(Math.min(now.getTime() + lastsMs, artifact.expiresAt.getTime()));
  const token = (await sealOf(db)).close(scopeOf(artifact.id), String(expiresAt.getTime()));
  const details = { artifact_id: artifact.id, expires_at: expiresAt.toISOString() };
  const { orgId, projectId, jobId } = artifact;
  await recordActions(db, [{ orgId, projectId, jobId, event: 'artifact.linked', requester, details }]);
  return { token, expiresAt };
}

/** Returns the artifact of a link. Throws FORBIDDEN if the link was altered or has expired, and NOT_FOUND if the artifact is gone. */
export async function followLink(engine: Engine, { id, token }: { id: string; token: string }): Promise<FoundArtifact> {
  const db = engine.database.api;
  const sealed = isUuid(id) ? (await sealOf(db)).open(scopeOf(id), token) : null;
  if (sealed === null) throw refused('The link is not valid: it was altered, or belongs to another artifact. Ask for a new one.');
  const now = await readClock(db);
  if (now.getTime() >= Number(sealed)) throw refused('The link has expired. Ask for a new one.');
  const found = await findArtifact(db, id);
  if (found === null) throw noSuchArtifact(id);
  return found;
}

const refused = (message: string): AppError =>
  new AppError('FORBIDDEN', { message, details: [{ field: 'link', code: 'INVALID_LINK', message }] });
