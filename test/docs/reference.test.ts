import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { COMMON_OPTIONS, EXIT, type Options } from '../../src/cli/command.ts';
import { loadCommands } from '../../src/cli/commands.ts';
import { ERRORS } from '../../src/core/errors.ts';
import { isTerminal, JOB_STATES } from '../../src/core/states.ts';
import { REASONS, TRANSITIONS } from '../../src/core/transitions.ts';
import { stateDiagram } from '../core/transition-table.ts';

const COMMANDS = await loadCommands();

const page = (name: string) => readFileSync(new URL(`../../docs/reference/${name}.md`, import.meta.url), 'utf8');

/** The part of a page under one heading of the second level. */
function sectionOf(text: string, heading: string): string {
  const [, section] = text.split(`\n## ${heading}\n`);
  if (section === undefined) throw new Error(`There is no section "${heading}".`);
  return section.split('\n## ')[0] as string;
}

/** The rows of the first table, its head left out, cells without their code marks. */
function rowsOf(section: string): string[][] {
  const lines = section.split('\n');
  const first = lines.findIndex((line) => line.startsWith('|---'));
  const rest = lines.slice(first + 1);
  const end = rest.findIndex((line) => !line.startsWith('|'));
  return rest.slice(0, end === -1 ? undefined : end).map((line) => {
    const cells = line.split(/(?<!\\)\|/).slice(1, -1);
    return cells.map((cell) => cell.trim().replaceAll('`', '').replaceAll('\\|', '|'));
  });
}

function optionRows(options: Options): string[][] {
  return Object.entries(options).map(([name, { value, short, help }]) => {
    return [`${short ? `-${short}, ` : ''}--${name}${value ? ` ${value}` : ''}`, help];
  });
}

describe('docs/reference/cli.md', () => {
  const text = page('cli');

  it('lists every command of the program and no other', () => {
    const listed = rowsOf(text).map(([command, summary]) => [command?.replace(/^\[(.+)\]\(.+\)$/, '$1'), summary]);
    expect(listed).toEqual(COMMANDS.map(({ name, summary }) => [name, summary]));
    for (const { name } of COMMANDS) expect(text).toContain(`](#${name.replaceAll(' ', '-')})`);
  });

  it('has the options that every command has', () => {
    expect(rowsOf(sectionOf(text, 'Options of every command'))).toEqual(optionRows(COMMON_OPTIONS));
  });

  it.each(COMMANDS.map((command) => [command.name, command] as const))(
    'tells how to use %s: usage, every option and the examples',
    (name, { takes, options, examples }) => {
      const section = sectionOf(text, name);
      expect(section).toContain(`\nmillrace ${name} ${takes}`.trimEnd());
      const documented = section.includes('|---') ? rowsOf(section) : [];
      expect(documented).toEqual(optionRows(options));
      expect(section).toContain(`\n${examples.join('\n')}\n`);
    },
  );

  it('has the exit codes', () => {
    const codes = rowsOf(sectionOf(text, 'Exit codes')).map(([code]) => Number(code));
    expect(codes).toEqual(Object.values(EXIT));
  });
});

describe('docs/reference/errors.md', () => {
  it('has one row for each code of the catalogue, with its meaning and what to do, and no other [FR-14.93]', () => {
    const expected = Object.entries(ERRORS).map(([code, { message, remedy }]) => [code, message, remedy.replaceAll('`', '')]);
    expect(rowsOf(page('errors'))).toEqual(expected);
  });
});

describe('docs/reference/states.md', () => {
  const text = page('states');

  it('has the nine states, and says which of them end a job', () => {
    const listed = rowsOf(text).map(([state, , ends]) => [state, ends]);
    expect(listed).toEqual(JOB_STATES.map((state) => [state, isTerminal(state) ? 'yes' : 'no']));
  });

  it('has every legal transition with its reasons, and no other', () => {
    const legal = JOB_STATES.flatMap((from) =>
      JOB_STATES.map((to) => [from, to, TRANSITIONS[from][to].join(', ')]).filter(([, , reasons]) => reasons !== ''),
    );
    expect(rowsOf(sectionOf(text, 'Transitions'))).toEqual(legal);
  });

  it('explains every reason', () => {
    const explained = rowsOf(sectionOf(text, 'Reasons'));
    expect(explained.map(([reason]) => reason)).toEqual([...REASONS]);
    for (const [, meaning] of explained) expect(meaning).toMatch(/^[a-z].*[^.]$/);
  });

  it('draws the diagram that the table gives', () => {
    expect(text.match(/```mermaid\n([\s\S]*?)\n```/)?.[1]).toBe(stateDiagram());
  });
});
