import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { ledgerDefinitions, processDefinitions } from '../../src/telemetry/catalogue.ts';
import { folderWith } from '../cli/program.ts';
import { ALERT_CASES, type AlertCase } from './alert-cases.ts';

const RULES = fileURLToPath(new URL('../../ops/prometheus/alerts.yml', import.meta.url));

type Rule = { alert: string; expr: string; severity: string; summary: string; description: string };

/** The file is generated, one member a line. */
function readRules(): Rule[] {
  const [, ...parts] = readFileSync(RULES, 'utf8').split('      - alert: ');
  return parts.map((part) => {
    const member = (name: string) => {
      const found = new RegExp(`^ +${name}: (.+)$`, 'm').exec(part)?.[1];
      if (found === undefined) throw new Error(`A rule has no ${name}: ${part}`);
      return found.startsWith("'") ? found.slice(1, -1).replaceAll("''", "'") : found;
    };
    const [severity, summary, description] = [member('severity'), member('summary'), member('description')];
    return { alert: part.split('\n')[0] as string, expr: member('expr'), severity, summary, description };
  });
}

const rules = readRules();

describe('each alert rule', () => {
  const labelsOf = new Map(
    [...ledgerDefinitions(), ...processDefinitions()].map(({ name, labels }) => [name, labels as readonly string[]]),
  );
  /** Prometheus adds these to the series of each process. */
  const ADDED = ['instance', 'pod'];

  /** Every series that an expression names, with the labels of its selector. */
  function seriesIn(expr: string): { name: string; labels: string[] }[] {
    return [...expr.matchAll(/([a-z]+(?:_[a-z]+)+)(?:\{([^}]*)\})?(?! *\()/g)]
      .map(([, name = '', selector = '']) => ({
        name: labelsOf.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, ''),
        labels: [...selector.matchAll(/([a-z_]+) *(?:=~|!~|!=|=)/g)].map(([, label]) => label as string),
      }))
      .filter(({ name }) => name !== 'job_type');
  }
  const listed = (expr: string, word: string) =>
    [...expr.matchAll(new RegExp(`${word} \\(([^)]*)\\)`, 'g'))].flatMap(([, list = '']) => list.split(', '));

  it.each(rules.map((rule) => [rule.alert, rule] as const))('%s names metrics and labels that exist', (_, { expr, summary }) => {
    const series = seriesIn(expr);
    expect(series.length).toBeGreaterThan(0);
    for (const { name, labels } of series) {
      expect([...labelsOf.keys()]).toContain(name);
      expect(labelsOf.get(name)).toEqual(expect.arrayContaining(labels));
    }
    const known = series.flatMap(({ name }) => labelsOf.get(name) ?? []);
    expect([...known, ...ADDED]).toEqual(expect.arrayContaining([...listed(expr, 'by'), ...listed(expr, 'without')]));
    const shown = [...summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label as string);
    expect(listed(expr, 'by')).toEqual(expect.arrayContaining(shown));
  });

  it('has a case in which it fires and is over again', () => {
    expect([...new Set(ALERT_CASES.map(({ alert }) => alert))]).toEqual(rules.map(({ alert }) => alert));
  });
});

/** One test of promtool. At each minute it compares the alerts of the rule, with all their labels and annotations. */
function unitTestOf({ alert: alertname, title, series, silent, fires }: AlertCase) {
  const { severity, summary, description } = rules.find(({ alert }) => alert === alertname) as Rule;
  const { labels = {}, value = '' } = fires;
  const filled = summary
    .replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => labels[label] ?? '')
    .replaceAll(/\{\{ \$value [^}]*\}\}/g, value);
  const firing = [{ exp_labels: { ...labels, severity }, exp_annotations: { summary: filled, description } }];
  return {
    name: `${alertname} ${title}`,
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    alert_rule_test: [
      { eval_time: `${fires.at}m`, alertname, exp_alerts: firing },
      ...silent.map((minute) => ({ eval_time: `${minute}m`, alertname, exp_alerts: [] })),
    ],
  };
}

describe('Prometheus', () => {
  // promtool comes with Prometheus and is not on npm. Without it, this is reported as skipped, with the reason.
  it.for(ALERT_CASES)('$alert $title', (each, { skip }) => {
    const file = 'case.yml'; // JSON is YAML.
    const text = JSON.stringify({ rule_files: [RULES], evaluation_interval: '1m', tests: [unitTestOf(each)] });
    const { error, status, stdout, stderr } = spawnSync('promtool', ['test', 'rules', join(folderWith({ [file]: text }), file)], {
      encoding: 'utf8',
    });
    if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') return skip('promtool is not installed');
    expect({ status, output: status === 0 ? '' : stdout + stderr }).toEqual({ status: 0, output: '' });
  });
});
