import type { BigIntStats } from 'node:fs';

export const FILE_MODE = 0o600;
export const FOLDER_MODE = 0o700;
export const DRAFT_SUFFIX = '.meta';

/** What lies beside the bytes of an object. */
export interface Side {
  readonly key: string;
  readonly version: string;
  /** The version that this one replaced, so that a sweep can remove its side file after a crash. */
  readonly previous: string | null;
  readonly contentType: string;
  readonly metadata: readonly (readonly [string, string])[];
}

/** The time of the last change and the size. Copies that keep the time keep it too. */
export const versionOf = ({ mtimeNs, size }: BigIntStats): string => `${mtimeNs.toString(36)}-${size.toString(36)}`;

/** The descriptions in a side file. Objects that were written together share one file. */
export function parseSides(text: string): Side[] {
  try {
    const sides: unknown = JSON.parse(text);
    return (Array.isArray(sides) ? sides : [sides]).filter(isSide);
  } catch {
    return [];
  }
}

const isSide = (side: Partial<Side> | null): side is Side => typeof side?.key === 'string' && Array.isArray(side.metadata);

export const sideOfVersion = (text: string, version: string): Side | null =>
  parseSides(text).find((side) => side.version === version) ?? null;
