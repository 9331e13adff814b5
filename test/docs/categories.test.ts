/** The guide of governed jobs says what the code does, and when to use a job at all. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CATEGORY_NAMES, capabilitiesOf } from '../../src/core/governance/categories.ts';
import { categoriesWith } from '../../src/core/governance/category.ts';
import { SECRET_MEMBERS } from '../../src/core/governance/secret-members.ts';
import { STANDING_QUEUES } from '../../src/core/submission-fields.ts';

const text = readFileSync(new URL('../../docs/guides/categories.md', import.meta.url), 'utf8').replace(/\s+/g, ' ');
const lines = readFileSync(new URL('../../docs/guides/categories.md', import.meta.url), 'utf8').split('\n');

const tableAfter = (head: string): string[][] => {
  const start = lines.findIndex((line) => line.startsWith(head)) + 2;
  const rows = lines.slice(start, lines.indexOf('', start));
  return rows.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('`', '')),
  );
};

const daysOf = (ms: number): string => `${ms / 86_400_000} days`;
const minutesOf = (ms: number): string => `${ms / 60_000} minutes`;

describe('docs/guides/categories.md', () => {
  it('has every category with its numbers, and no other [AB-cat.01] [AB-cat.02] [AB-cat.07] [AB-cat.12] [AB-cat.17] [AB-cat.22] [AB-accept.01] [AB-def.02]', () => {
    const rows = tableAfter('| category | for |').map(([name, , ...rest]) => [name, ...rest]);
    expect(rows).toEqual(
      [...categoriesWith().values()].map((category) => [
        ...[category.name, category.queue, `${category.maxAttempts}`, minutesOf(category.maxDelayMs), daysOf(category.keyWindowMs)],
        ...[category.allowsScheduling ? 'yes' : 'no', category.requiredMembers.join(', ')],
      ]),
    );
    for (const { queue } of categoriesWith().values()) expect(STANDING_QUEUES).toContain(queue);
  });

  it('says what handlers of each category may do [AB-cat.08] [AB-cat.10] [AB-cat.13] [AB-cat.14]', () => {
    const rows = tableAfter('| category | audit trail |');
    expect(rows.map(([name]) => name)).toEqual([...CATEGORY_NAMES, 'none']);
    for (const [name, ...cells] of rows) {
      const may = capabilitiesOf(name === 'none' ? null : (name as string));
      expect(cells.map((cell) => cell !== 'no')).toEqual(
        (['audit', 'artifacts', 'assignments', 'jobs'] as const).map((each) => may.includes(each)),
      );
    }
  });

  it.each([
    ['AB-cat.06', 'a notice that a collaborator was assigned or that a run sheet changed is a `notification`'],
    ['AB-cat.11', 'Readable diffs of run sheets are `audit_enrichment`'],
    ['AB-cat.16', 'Conflict scans and ranked proposals for assignments are `planning`'],
    ['AB-cat.21', 'The export of a plan to PDF or CSV and the import of availabilities are `import_export`'],
    ['AB-cat.28', 'so would be the rebuild of a search index'],
    ['AB-scope.03', 'cover categories, queues, retries, repeats, ownership, audit, observability and failures'],
    ['AB-scope.04', 'They choose no runtime and no vendor, and Millrace sends no messages itself'],
    ['AB-scope.05', 'refers to four other documents, which are not part of this project'],
  ])('[%s] %s', (_, sentence) => {
    expect(text).toContain(sentence);
  });

  it('uses words that the glossary defines [AB-def.01] [AB-def.03] [AB-def.04]', () => {
    const glossary = readFileSync(new URL('../../docs/internals/glossary.md', import.meta.url), 'utf8');
    for (const word of ['job', 'attempt', 'idempotency key']) expect(glossary).toContain(`| **${word}** |`);
  });

  it('names every secret member', () => {
    for (const name of SECRET_MEMBERS) expect(text).toContain(`\`${name}\``);
  });

  it.each([
    ['AB-when.01', 'typically over 300 ms, or over 2 s in the worst case'],
    ['AB-when.02', 'when the work waits for external systems'],
    ['AB-when.03', 'when the work aggregates or computes derived data'],
    ['AB-when.04', 'when the work must be retried without blocking the user'],
    ['AB-when.05', 'for a small write that must be consistent immediately'],
    ['AB-when.06', 'for a simple read'],
    ['AB-when.07', 'for a short deterministic write with little risk'],
    ['AB-consistency.01', 'Jobs are eventually consistent'],
    ['AB-consistency.02', 'Report success to your caller only after your own transaction has committed'],
    ['AB-consistency.03', 'A job may compute derived views'],
    ['AB-consistency.04', 'they are not authoritative unless you say so'],
    ['AB-principle.04', 'guard external calls with the `idempotencyKey`'],
    ['AB-principle.05', 'and with a timeout'],
    ['AB-cancel.01', 'before it starts'],
    ['AB-cancel.02', 'A running job stops at its next checkpoint'],
    ['AB-open.01', "Workers are Millrace's own TypeScript workers"],
    ['AB-open.02', 'Idempotency keys are kept in PostgreSQL'],
    ['AB-open.03', 'objectives for the latency of each queue'],
  ])('has the line of [%s]', (_, line) => {
    expect(text).toContain(line);
  });
});
