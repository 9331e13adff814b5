import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { alertRules } from '../../scripts/alert-rules.ts';
import { dashboard } from '../../scripts/dashboard.ts';
import { ledgerDefinitions, type MetricDefinition, processDefinitions } from '../../src/telemetry/catalogue.ts';

const file = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const sources = (...paths: string[]): string => paths.map(file).join('\n');

const section = (page: string, heading: string): string => file(page).split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] as string;
const rowsOf = (text: string): string[] => text.split('\n').filter((line) => line.startsWith('| `'));
const namesOf = (text: string): string[] => rowsOf(text).map((row) => /^\| `([^`]+)`/.exec(row)?.[1] as string);

const rowOf = ({ name, kind, labels, help }: MetricDefinition): string =>
  `| \`${name}\` | ${kind} | ${labels.map((label) => `\`${label}\``).join(' ')} | ${help} |`;

describe('docs/reference/metrics.md', () => {
  it('has every metric of jobs with its labels, and no other', () => {
    expect(rowsOf(section('docs/reference/metrics.md', 'Metrics of jobs'))).toEqual(ledgerDefinitions().map(rowOf));
  });

  it('has every metric of a process with its labels, and no other', () => {
    expect(rowsOf(section('docs/reference/metrics.md', 'Metrics of a process'))).toEqual(processDefinitions().map(rowOf));
  });
});

describe('docs/reference/logs.md', () => {
  const all = readdirSync(new URL('../../src', import.meta.url), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const calls = sources(...all.map((name) => `src/${name}`));
  // These files choose the name of a line before they write it.
  const choosing = ['platform/job-lines', 'platform/execution-telemetry', 'telemetry/log', 'engine/work/give-up'];
  const chosen = sources(...choosing.map((name) => `src/${name}.ts`));

  it('has every line that the code writes, and no other', () => {
    const written = [
      ...calls.matchAll(/\blog(?:\.(?:debug|info|warn|error)|\[[^\]]+\])\(\s*'([^']+)'/g),
      ...chosen.matchAll(/'((?:job|log|process)\.[a-z_]+)'/g),
    ].map(([, name]) => name as string);
    expect(namesOf(section('docs/reference/logs.md', 'Lines')).toSorted()).toEqual([...new Set(written)].toSorted());
  });

  it('explains every field of the lines', () => {
    const fielded = sources(
      ...['platform/job-lines', 'platform/webhook-telemetry', 'telemetry/log', 'http/shared/request-log'].map((name) => `src/${name}.ts`),
    );
    const fields = [...fielded.matchAll(/^\s+(?:readonly )?([a-z]+(?:_[a-z]+)*)\??:/gm), ...fielded.matchAll(/[{,] ([a-z]+_[a-z_]+)[:,]/g)]
      .map(([, name]) => name as string)
      .filter((name) => name.includes('_') && name !== 'work_kind');
    const explained = namesOf(section('docs/reference/logs.md', 'Fields'));
    for (const name of new Set(fields)) expect(explained).toContain(name);
    for (const name of ['time', 'level', 'message', 'action', 'attempt', 'reason', 'scenario']) expect(explained).toContain(name);
  });
});

describe('ops/', () => {
  const known = new Map([...ledgerDefinitions(), ...processDefinitions()].map((definition) => [definition.name, definition]));
  const isKnown = (name: string): boolean =>
    known.has(name) || (known.get(name.replace(/_(?:bucket|sum|count)$/, ''))?.kind === 'histogram' && /_(?:bucket|sum|count)$/.test(name));

  it('has the files that "npm run ops" writes', () => {
    expect(file('ops/grafana/millrace.json')).toBe(dashboard());
    expect(file('ops/prometheus/alerts.yml')).toBe(alertRules());
  });

  it('uses only metrics that exist', () => {
    const { panels } = JSON.parse(dashboard()) as { panels: { targets: { expr: string }[] }[] };
    const expressions = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
    expressions.push(...[...alertRules().matchAll(/expr: '(.+)'/g)].map(([, expr]) => expr as string));
    const used = new Set(expressions.flatMap((expr) => expr.replace(/\{[^}]*\}/g, '').match(/[a-z]+(?:_[a-z]+)+/g) ?? []));
    const words = new Set(['histogram_quantile', 'job_type', 'error_class', '__rate_interval', 'rate_interval']);
    expect([...used].filter((name) => !words.has(name) && !isKnown(name))).toEqual([]);
    expect(used.size).toBeGreaterThan(20);
  });

  it('is explained by the guide, alert by alert', () => {
    const alerts = [...alertRules().matchAll(/- alert: (\w+)/g)].map(([, name]) => name as string);
    const listed = [...file('docs/operations/observability.md').matchAll(/^\| `(Millrace\w+)`/gm)].map(([, name]) => name as string);
    expect(listed).toEqual(alerts);
  });
});
