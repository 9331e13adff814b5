// npm run bench [-- --quick] [-- --only growth,http]: measures the figures of docs/operations/performance.md that need no network, prints one table, and
// fails if one misses its threshold. Each scenario has a separate database on one server with fsync on.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { Millrace } from '../src/index.ts';
import { measureApart } from './apart.ts';
import { AUDIT_SHARE, auditShare } from './audit.ts';
import { claimBuffers } from './claim-buffers.ts';
import { type Rates as DownloadRates, LARGE_BAR, MEMORY_BAR_MB, measureDownloads, SMALL_BAR } from './downloads.ts';
import { BARE_SHARE, httpShares } from './http.ts';
import { measureObservability, OBSERVED_SHARE } from './observability.ts';
import { openScratch } from './scratch-database.ts';
import { measureTraces, TRACED_SHARE } from './traces.ts';
import { delays, drain, median, percentile, pickups, submitBatches, submitSingles } from './workload.ts';

type Result = { what: string; measured: string; threshold: string; ok: boolean | null };

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false }, only: { type: 'string' } } });
const quick = values.quick;
const results: Result[] = [];
const say = (line: string) => process.stderr.write(`${line}\n`);

const scratch = await openScratch();
say(`PostgreSQL ${Math.floor(scratch.version / 10_000)}, ${quick ? 'quick' : 'full'} run`);

type Rates = { submit: number; batch: number; drain: number };

async function rates(url: string): Promise<Rates> {
  // Long enough that one checkpoint or vacuum is not the whole measurement.
  const [singles, batches] = quick ? [5_000, 10] : [60_000, 100];
  const millrace = await Millrace.open({ database: url });
  const submit = await submitSingles(millrace, singles);
  const batch = await submitBatches(millrace, batches);
  await millrace.close();
  return { submit, batch, drain: await drain(url, singles + batches * 1_000) };
}

async function throughput(): Promise<void> {
  say('throughput on an empty ledger ...');
  const { submit, batch, drain: drained } = await rates(await scratch.fresh('rates'));
  results.push({ what: 'submit, 64 callers', measured: `${submit} jobs/s`, threshold: '', ok: null });
  results.push({ what: 'submit, batches of 1000', measured: `${batch} jobs/s`, threshold: '', ok: null });
  results.push({ what: 'drain no-op jobs, 64 slots', measured: `${drained} jobs/s`, threshold: '', ok: null });
}

async function latency(): Promise<void> {
  const url = await scratch.fresh('pickup');
  await atRest(url);
  say('pickup on an idle queue ...');
  const waits = await pickups(url, quick ? 100 : 300);
  const [p50, p99] = [percentile(waits, 0.5), percentile(waits, 0.99)];
  results.push({ what: 'pickup p50', measured: `${p50.toFixed(2)} ms`, threshold: '<= 2.3 ms', ok: p50 <= 2.3 });
  results.push({ what: 'pickup p99', measured: `${p99.toFixed(2)} ms`, threshold: '<= 9 ms', ok: p99 <= 9 });
  say('delayed jobs ...');
  const late = await delays(await scratch.fresh('delays'), quick ? 100 : 300);
  const lateP99 = percentile(late, 0.99);
  const earliest = Math.min(...late);
  results.push({
    what: 'delayed start p99',
    measured: `${lateP99.toFixed(0)} ms late`,
    threshold: '<= 100 ms',
    ok: lateP99 <= 100,
  });
  results.push({
    what: 'delayed start, earliest',
    measured: `${earliest.toFixed(0)} ms late`,
    threshold: '>= 0 ms',
    ok: earliest >= 0,
  });
}

/** One process submits and two others work, as in a real deployment. bench/peers measures other queues. */
async function apart(): Promise<void> {
  const pgUrl = await scratch.fresh('apart');
  say('a producer and two workers in processes apart ...');
  const size = quick
    ? { probes: 100, perSecond: 500, seconds: 3, backlog: 10_000 }
    : { probes: 200, perSecond: 500, seconds: 10, backlog: 20_000 };
  const driver = new URL('./driver.ts', import.meta.url).href;
  const figures = await measureApart(driver, { pgUrl }, size);
  const atMost = (what: string, ms: number, threshold: number) =>
    results.push({ what, measured: `${ms.toFixed(2)} ms`, threshold: `<= ${threshold} ms`, ok: ms <= threshold });
  atMost('processes apart: pickup p50', figures.pickupP50Ms, 3);
  atMost('processes apart: pickup p99', figures.pickupP99Ms, 12);
  atMost(`processes apart: start p50 at ${size.perSecond} jobs/s`, figures.loadP50Ms, 3);
  atMost(`processes apart: start p99 at ${size.perSecond} jobs/s`, figures.loadP99Ms, 25);
  const drained = { what: 'processes apart: drain, handlers of 5 ms', measured: `${figures.drainPerSecond} jobs/s` };
  results.push({ ...drained, threshold: '', ok: null });
  const missing = { what: 'processes apart: jobs that did not start', measured: String(figures.missing) };
  results.push({ ...missing, threshold: '0', ok: figures.missing === 0 });
}

/** Measures the same work on a large ledger and on empty ones, in turns, so that both run under the same conditions. */
async function growth(): Promise<void> {
  const jobs = quick ? 50_000 : 1_000_000;
  const url = await scratch.fresh('growth');
  const millrace = await Millrace.open({ database: url });
  say(`filling the ledger: ${jobs} finished ...`);
  await submitBatches(millrace, jobs / 1_000);
  await drain(url, jobs);
  say(`filling the ledger: ${jobs} scheduled ...`);
  await submitBatches(millrace, jobs / 1_000);
  await millrace.close();
  await atRest(url);
  const turns: { empty: Rates; full: Rates }[] = [];
  for (let turn = 0; turn < (quick ? 1 : 5); turn++) {
    say(`the same work on an empty ledger and on the full one, turn ${turn + 1} ...`);
    const empty = await rates(await scratch.fresh('empty'));
    turns.push({ empty, full: await rates(url) });
  }
  for (const key of ['submit', 'batch', 'drain'] as const) {
    const share = median(turns.map(({ empty, full }) => full[key] / empty[key]));
    const [full, empty] = [median(turns.map((each) => each.full[key])), median(turns.map((each) => each.empty[key]))];
    const measured = `${full} beside ${empty} jobs/s: ${(share * 100).toFixed(0)} %`;
    results.push({ what: `${key} with ${jobs} waiting and ${jobs} finished`, measured, threshold: '>= 80 %', ok: share >= 0.8 });
  }
}

/** After many jobs PostgreSQL has pages to write and to vacuum. The measurement waits, so that it does not include this work. */
async function atRest(url: string): Promise<void> {
  say('until PostgreSQL has written and vacuumed what the last scenario left ...');
  const client = new pg.Client(url);
  await client.connect();
  await client.query('CHECKPOINT');
  for (let quietChecks = 0, checks = 0; quietChecks < 5 && checks < 180; checks++) {
    const { rows } = await client.query('SELECT count(*)::int4 AS vacuums FROM pg_stat_progress_vacuum');
    quietChecks = rows[0].vacuums === 0 ? quietChecks + 1 : 0;
    await sleep(1_000);
  }
  await client.end();
}

async function pinned(): Promise<void> {
  const jobs = quick ? 20_000 : 100_000;
  say(`claims behind a pinned snapshot (${jobs}) ...`);
  const { before, after } = await claimBuffers(await scratch.fresh('pinned'), jobs);
  const measured = `${before} before, ${after} after ${jobs} claims`;
  results.push({ what: 'buffers per claim, xmin pinned', measured, threshold: 'flat (<= 1.5 x)', ok: after <= before * 1.5 });
}

async function http(): Promise<void> {
  await atRest(await scratch.fresh('rest'));
  say('single jobs over HTTP, compared with a handler that only parses and responds ...');
  for (const { path, millrace, other, share } of await httpShares(scratch.fresh, { quick, client: 'raw' })) {
    const measured = `${millrace} of ${other} requests/s = ${(share * 100).toFixed(0)} %`;
    results.push({ what: `POST ${path}, 64 connections`, measured, threshold: `>= ${BARE_SHARE * 100} %`, ok: share >= BARE_SHARE });
  }
}

async function audit(): Promise<void> {
  say('jobs with an audit trail, and without ...');
  const size = quick ? { jobs: 20_000, turns: 3 } : { jobs: 50_000, turns: 5 };
  const { plain, audited, share, plainCpu, auditedCpu } = await auditShare(scratch.fresh, size);
  const measured = `${audited} beside ${plain} jobs/s: ${(share * 100).toFixed(0)} %`;
  results.push({ what: 'audited jobs', measured, threshold: `>= ${AUDIT_SHARE * 100} %`, ok: share >= AUDIT_SHARE });
  const cpu = { what: 'processor time of a job with its audit rows', measured: `${auditedCpu} beside ${plainCpu} us` };
  results.push({ ...cpu, threshold: '', ok: null });
}

/** Beside the fastest of the programs that are installed. */
async function downloads(): Promise<void> {
  const url = await scratch.fresh('downloads');
  say('downloads through POST /jobs, and with other programs ...');
  const size = quick ? { files: 2_000, megabytes: 256 } : { files: 10_000, megabytes: 1_024 };
  const { small, large, memoryMb } = await measureDownloads(url, size);
  const shown = (rates: DownloadRates | null) =>
    rates === null ? 'not installed' : `${rates.plain} files/s, ${rates.durable} with the flush`;
  for (const [name, rates] of small.others) say(`  ${name}: ${shown(rates)}`);
  const best = (how: keyof DownloadRates) => Math.max(0, ...[...small.others.values()].map((rates) => rates?.[how] ?? 0));
  // The bars are for the programs as they are. The flush shows what equal durability costs them.
  for (const how of ['plain', 'durable'] as const) {
    const flushed = how === 'plain' ? '' : ', both flushed';
    const [smallBar, largeBar] = how === 'plain' ? [SMALL_BAR, LARGE_BAR] : [];
    shareOf(`${size.files} small files${flushed}`, { millrace: small.millrace, other: best(how), unit: 'files/s', bar: smallBar });
    const other = large.curl?.[how] ?? 0;
    shareOf(`one file of ${size.megabytes} MB, beside curl${flushed}`, { millrace: large.millrace, other, unit: 'MB/s', bar: largeBar });
  }
  const grown = { what: 'memory that the large file took', measured: `${memoryMb} MB` };
  results.push({ ...grown, threshold: `<= ${MEMORY_BAR_MB} MB`, ok: memoryMb <= MEMORY_BAR_MB });
}

/** What metrics and logs at their defaults cost, and traces of which one in a hundred is sent. */
async function observability(): Promise<void> {
  say('the hot path with metrics and logs, and without ...');
  const { wholeUs, observersUs, rollupsUs, share } = await measureObservability(scratch.fresh, { quick });
  results.push({
    what: 'submit and run with metrics and logs',
    measured: `${observersUs.toFixed(1)} + ${rollupsUs.toFixed(1)} us added to ${wholeUs.toFixed(0)} a job: ${(share * 100).toFixed(1)} %`,
    threshold: `>= ${OBSERVED_SHARE * 100} %`,
    ok: share >= OBSERVED_SHARE,
  });
  say('jobs over HTTP with traces, and without ...');
  const { plain, traced, share: tracedShare, spans } = await measureTraces(scratch.fresh, { quick });
  results.push({
    what: `jobs over HTTP, 1 % of them with a trace (${spans} spans)`,
    measured: `${traced} beside ${plain} jobs/s: ${(tracedShare * 100).toFixed(1)} %`,
    threshold: `>= ${TRACED_SHARE * 100} %`,
    ok: tracedShare >= TRACED_SHARE,
  });
}

type Compared = { millrace: number; other: number; unit: string; bar: number | undefined };

/** Without a bar it only shows the figures. */
function shareOf(what: string, { millrace, other, unit, bar }: Compared): void {
  const share = other === 0 ? null : millrace / other;
  const measured = share === null ? `${millrace} ${unit}` : `${millrace} beside ${other} ${unit}: ${share.toFixed(2)} x`;
  const ok = share === null || bar === undefined ? null : share >= bar;
  results.push({ what, measured, threshold: bar === undefined ? '' : `>= ${bar} x`, ok });
}

try {
  const named = values.only?.split(',');
  for (const scenario of [throughput, latency, apart, growth, pinned, http, audit, downloads, observability])
    if (named === undefined || named.includes(scenario.name)) await scenario();
} finally {
  console.table(results.map(({ ok, ...result }) => ({ ...result, '': ok === null ? '' : ok ? 'ok' : 'MISSED' })));
  await scratch.close();
}
process.exitCode = results.some((result) => result.ok === false) ? 1 : 0;
