import { type BadRow, ChainChecker } from './verify-chain.ts';

export type ExportVerdict =
  | { readonly kind: 'ok'; readonly rows: number }
  | { readonly kind: 'bad'; readonly rows: number; readonly line: number; readonly firstBad: BadRow };

/** The end of every line: the hash of the row before it, its own, and where the chain began and ended when it was exported. */
const TAIL = /,"previous_hash":"([0-9a-f]{64})","hash":"([0-9a-f]{64})","first":(\d{1,15}),"last":(\d{1,15})\}$/;

type Parsed = {
  orgId: string;
  auditId: string;
  position: number;
  previous: string;
  hash: string;
  first: number;
  last: number;
  hashed: string;
};

/**
 * Checks the lines of an export, one after another. It hashes the bytes of each line as they are, so that no change of a byte goes
 * unnoticed. Chains of several orgs follow each other.
 */
export class ExportChecker {
  #chain: { orgId: string; checker: ChainChecker; last: number; first: number } | null = null;
  #seen = new Set<string>();
  #rows = 0;
  #line = 0;

  /** Returns the verdict if the line is wrong, or null. */
  add(line: string): ExportVerdict | null {
    this.#line++;
    if (line === '') return null;
    const row = parse(line);
    if (row === null)
      return this.#bad({ orgId: this.#chain?.orgId ?? '', auditId: null, position: 0, reason: 'it is not a line of an audit export' });
    if (row.orgId !== this.#chain?.orgId) {
      const bad = this.#chain?.checker.end() ?? null;
      if (bad !== null) return this.#bad(bad);
      if (this.#seen.has(row.orgId)) return this.#bad({ ...row, reason: 'rows of its org came earlier: lines were moved' });
      this.#seen.add(row.orgId);
      const { orgId, first, last } = row;
      this.#chain = { orgId, first, last, checker: new ChainChecker(orgId, { first, last, anchorHash: row.previous, lastHash: null }) };
    }
    const { checker, first, last } = this.#chain;
    const before = checker.hash;
    if (row.first !== first || row.last !== last) return this.#bad({ ...row, reason: 'it is of another export than the lines before it' });
    const bad = checker.add(row, row.hashed) ?? (row.previous === before ? null : { ...row, reason: 'it names another row before it' });
    if (bad !== null) return this.#bad(bad);
    this.#rows++;
    return null;
  }

  end(): ExportVerdict {
    const bad = this.#chain?.checker.end() ?? null;
    return bad === null ? { kind: 'ok', rows: this.#rows } : this.#bad(bad);
  }

  #bad({ orgId, auditId, position, reason }: BadRow): ExportVerdict {
    return { kind: 'bad', rows: this.#rows, line: this.#line, firstBad: { orgId, auditId, position, reason } };
  }
}

function parse(line: string): Parsed | null {
  const tail = TAIL.exec(line);
  if (tail === null) return null;
  const [, previous = '', hash = '', first, last] = tail;
  const hashed = `${line.slice(0, tail.index)}}`;
  try {
    const { audit_id: auditId, org_id: orgId, position } = JSON.parse(hashed) as Record<string, unknown>;
    if (typeof auditId !== 'string' || typeof orgId !== 'string' || typeof position !== 'number') return null;
    return { auditId, orgId, position, previous, hash, first: Number(first), last: Number(last), hashed };
  } catch {
    return null;
  }
}
