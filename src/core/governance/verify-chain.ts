import { type AuditRow, detailsText, hashOf, lineOf, NO_HASH } from './audit-row.ts';

/** The first row that is wrong, and why. */
export type BadRow = {
  readonly orgId: string;
  /** Null: the row is missing. */
  readonly auditId: string | null;
  readonly position: number;
  readonly reason: string;
};

/** Where a chain must begin and end. `anchorHash` is the hash before its first row. An export does not know the last hash. */
export type ChainBounds = { readonly first: number; readonly last: number; readonly anchorHash: string; readonly lastHash: string | null };

/** Checks the rows of one chain, one after another. */
export class ChainChecker {
  readonly #orgId: string;
  readonly #bounds: ChainBounds;
  #position: number;
  #hash: string;

  constructor(orgId: string, bounds: ChainBounds) {
    this.#orgId = orgId;
    this.#bounds = bounds;
    this.#position = bounds.first - 1;
    this.#hash = bounds.first === 1 ? NO_HASH : bounds.anchorHash;
  }

  /** The hash of the newest row that was checked. */
  get hash(): string {
    return this.#hash;
  }

  /** `line` is the text that the hash was made of. Returns what is wrong with the row, or null. */
  add({ auditId, position, hash }: { auditId: string; position: number; hash: string }, line: string): BadRow | null {
    const expected = this.#position + 1;
    const bad = (reason: string): BadRow => ({ orgId: this.#orgId, auditId, position, reason });
    if (position > expected) return bad(`the row with position ${expected} is missing before this one`);
    if (position < expected) return bad(`its position must be ${expected}: rows were added, moved or changed`);
    if (hashOf(this.#hash, line) !== hash) return bad('its hash does not match its content and the row before it');
    this.#position = position;
    this.#hash = hash;
    return null;
  }

  /** Checks that nothing is missing at the end. */
  end(): BadRow | null {
    const { last, lastHash } = this.#bounds;
    if (this.#position < last)
      return {
        orgId: this.#orgId,
        auditId: null,
        position: this.#position + 1,
        reason: `rows are missing at the end: the chain has ${last} rows`,
      };
    if (lastHash !== null && this.#hash !== lastHash)
      return { orgId: this.#orgId, auditId: null, position: last, reason: 'the last row is not the one that the end of the chain names' };
    return null;
  }
}

/** The hashed line of a stored row. A row whose details are not canonical was changed, and gets a line that cannot match. */
export const storedLineOf = (row: AuditRow): string => (detailsText(parsed(row.details)) === row.details ? lineOf(row) : `${lineOf(row)} `);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
