import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { summaryLines } from '../../src/cli/simulate/summary-text.ts';
import { Histogram } from '../../src/simulator/histogram.ts';
import { htmlReport } from '../../src/simulator/html-report.ts';
import { Stats } from '../../src/simulator/stats.ts';
import { summarize } from '../../src/simulator/summary.ts';
import { Verifier } from '../../src/simulator/verifier.ts';

const FACTS = { url: 'http://127.0.0.1:1', seed: 42, timeScale: 0.01, clients: 2 };
const plain = { paint: (_: string, text: string) => text };

function summaryOf({ refusals = 0 }: { refusals?: number } = {}) {
  const verifier = new Verifier({ expectations: new Map(), timeScale: 1 });
  const stats = new Stats();
  const plan = { no: 0, type: 'EXECUTE', client: 0, key: 'job-0', executionInMs: null } as const;
  const seen = { jobs: [], missed: 0, problems: [], notes: [] };
  const refusal = { status: 400, code: 'RFA_JOB_VALIDATION_FAILED' };
  verifier.add({ ...seen, plan: { ...plan, kind: 'PAYLOAD_INVALID' }, refusal });
  for (let at = 0; at < refusals; at++) verifier.add({ ...seen, plan: { ...plan, kind: 'CPU_BURST' }, refusal });
  stats.exchange({ route: 'POST /jobs', status: 202, ms: 12 });
  stats.exchange({ route: 'POST /jobs', status: 0, ms: 1 });
  stats.accepted(12);
  stats.finished('SUCCEEDED');
  verifier.close();
  const run = { stats, verifier, elapsedMs: 1_234, notes: ['<b>note</b>'], deliveries: 3, wasInterrupted: false };
  return summarize(run, FACTS);
}

describe('a histogram', () => {
  it('gives quantiles within 8 percent of the true ones, and never more than the longest', () => {
    const times = fc.array(fc.double({ min: 0.1, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(times, fc.constantFrom(0.5, 0.95, 0.99, 1), (all, share) => {
        const histogram = new Histogram();
        for (const ms of all) histogram.add(ms);
        const sorted = [...all].sort((a, b) => a - b);
        const exact = sorted[Math.max(0, Math.ceil(share * all.length) - 1)] as number;
        const given = histogram.quantile(share);
        expect(given).toBeGreaterThanOrEqual(exact - 0.06);
        expect(given).toBeLessThanOrEqual(Math.min(exact * 1.081, sorted.at(-1) as number) + 0.06);
        const inBars = histogram.bars(10).reduce((sum, { count }) => sum + count, 0);
        expect(inBars).toBe(all.length);
      }),
    );
  });

  it('of nothing is empty', () => {
    expect(new Histogram().quantiles()).toEqual({ count: 0, p50: 0, p95: 0, p99: 0, max: 0 });
    expect(new Histogram().bars(10)).toEqual([]);
  });
});

describe('the report of a run', () => {
  it('is good when every job ended as expected', () => {
    const summary = summaryOf();
    expect(summary).toMatchObject({
      ...{ ok: true, seed: 42, driven: 1, asExpected: 1, elapsedMs: 1_234, problemCount: 0, deliveries: 3 },
      exchanges: { 'POST /jobs 202': 1, 'POST /jobs cut': 1 },
    });
    const text = summaryLines(summary, plain).join('\n');
    expect(text).toMatch(/PAYLOAD_INVALID +REJECTED +1 +1/);
    expect(text).toContain('none of the 39 was seen');
    expect(text).toMatch(/Every job ended as expected: 1 kinds, 1 scenarios, 0 jobs in 1\.2 s\.$/);
  });

  it('names what differs, at most twenty of them in the terminal', () => {
    const summary = summaryOf({ refusals: 25 });
    expect(summary).toMatchObject({ ok: false, driven: 26, asExpected: 1, problemCount: 25 });
    expect(summary.problems).toHaveLength(25);
    const text = summaryLines(summary, plain).join('\n');
    expect(text).toContain('was refused: 400 RFA_JOB_VALIDATION_FAILED, expected SUCCEEDED');
    expect(text).toContain('and 5 more');
    expect(text).toMatch(/CPU_BURST +SUCCEEDED +25 +0 {2}DIFFERS/);
    expect(text).toMatch(/25 of 26 scenarios differ/);
  });

  it('is a page that loads nothing, runs nothing and shows what it is given as text', () => {
    const page = htmlReport(summaryOf({ refusals: 1 }));
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).not.toMatch(/<script|<link|src=|href=|@import|url\(/);
    expect(page.match(/<svg /g)?.length).toBeGreaterThanOrEqual(3);
    expect(page).toContain('&lt;b&gt;note&lt;/b&gt;');
    expect(page).toContain('was refused: 400 RFA_JOB_VALIDATION_FAILED');
  });
});
