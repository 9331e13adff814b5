import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from '../../src/cli/parse.ts';
import { UsageError } from '../../src/cli/usage-error.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { isAppError } from '../../src/core/errors.ts';
import { RESERVED_NAMES } from '../../src/core/reserved-names.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { HOSTILE_RUNS, hostileName, pollution, WORST } from './names.ts';

const NAMES = [...new Set([...WORST, ...RESERVED_NAMES])];
const property = (judge: (name: string) => void) =>
  fc.assert(fc.property(hostileName, judge), { numRuns: HOSTILE_RUNS / 4, examples: NAMES.map((name) => [name]) });
const propertyInTime = (judge: (name: string) => Promise<void>) =>
  fc.assert(fc.asyncProperty(hostileName, judge), { numRuns: HOSTILE_RUNS / 4, examples: NAMES.map((name) => [name]) });

describe('a name that a program may trip over', () => {
  it('as a command, an option or its value is understood or refused as a mistake of usage', async () => {
    await propertyInTime(async (name) => {
      const lines = [[name], ['jobs', name], ['jobs', 'list', `--${name}`], ['jobs', 'list', `--no-${name}`]];
      for (const line of [...lines, ['jobs', 'list', `--${name}=x`], ['jobs', 'submit', name, '--tag', name]]) {
        try {
          await parse(line);
        } catch (error) {
          if (!(error instanceof UsageError)) throw error;
        }
      }
      expect(pollution()).toEqual([]);
    });
  });

  it('as a section, a key, a queue or a variable of the configuration is taken or refused with a reason', () => {
    const folder = mkdtempSync(join(tmpdir(), 'millrace-hostile-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'millrace.toml');
    property((name) => {
      const key = JSON.stringify(name);
      const texts = [`[${key}]\na = 1\n`, `[server]\n${key} = 1\n`, `[queues.${key}]\norder = "fair"\n`];
      for (const text of [...texts, `[queues."a"]\n${key} = 1\n`, `${key} = 1\n`]) {
        writeFileSync(file, text);
        try {
          loadConfig({ environment: { [`MILLRACE_${name}`]: '1' }, folder, file });
        } catch (error) {
          if (!isAppError(error, 'INVALID_CONFIG')) throw error;
        }
      }
      expect(pollution()).toEqual([]);
    });
  });

  it('as a label keeps the metrics readable', async () => {
    const metrics = new Metrics();
    const counter = metrics.counter({ name: 'things_total', kind: 'counter', help: 'Things.', labels: ['name'] });
    property((name) => {
      counter.inc({ name });
    });
    const lines = (await metrics.text()).trimEnd().split('\n');
    const series = /^things_total\{name="(?:[^"\\\n]|\\[\\"n])*"\} \d+$/s;
    expect(lines.filter((line) => line !== '' && !line.startsWith('# ') && !series.test(line))).toEqual([]);
  });
});
