import { afterEach, describe, expect, it, vi } from 'vitest';
import { COMMAND_NAMES, loadCommands } from '../../src/cli/commands.ts';
import { maskPassword } from '../../src/cli/connection.ts';
import { commandHelp } from '../../src/cli/help-text.ts';
import { main } from '../../src/cli/main.ts';
import { Output, toJson } from '../../src/cli/output.ts';
import { run } from './program.ts';

const COMMANDS = await loadCommands();

/** In this process, where a command ends before it opens anything. */
async function runHere(args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const written = { stdout: '', stderr: '' };
  const emitters = [[process.stdout, 'error'] as const, [process, 'SIGINT'] as const];
  const before = new Set(emitters.flatMap(([emitter, name]) => emitter.listeners(name)));
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      written[name] += text;
      return true;
    }),
  );
  try {
    return { code: await main(args), ...written };
  } finally {
    for (const spy of spies) spy.mockRestore();
    for (const [emitter, name] of emitters) {
      for (const listener of emitter.listeners(name)) {
        if (!before.has(listener)) emitter.off(name, listener as () => void);
      }
    }
  }
}

describe('a command line that is wrong', () => {
  it.each([
    [['jobz', 'list'], 'There is no command "jobz" (did you mean jobs?).'],
    [['jobs', 'lst'], 'There is no command "jobs lst" (did you mean jobs list?).'],
    [['wrk'], 'There is no command "wrk" (did you mean work?).'],
    [['jobs', 'list', '--sate', 'failed'], '"millrace jobs list" has no option --sate (did you mean --state?).'],
    [['work', 'x.ts', '--conccurency=3'], '"millrace work" has no option --conccurency (did you mean --concurrency?).'],
    [['jobs', 'list', '--state', 'faild'], '--state does not know "faild" (did you mean failed?)'],
    [['jobs', 'list', '--limit', 'many'], '--limit takes a whole number of at least 1, not "many".'],
    [['jobs', 'list', '--limit'], "Option '--limit <value>' argument missing."],
    [['jobs', 'list', '--no-json'], '"millrace jobs list" has no option --no-json (did you mean --json?).'],
    [['jobs', 'list', '--tag', 'customer'], '--tag takes NAME=VALUE, not "customer".'],
    [['jobs', 'get'], '"millrace jobs get" needs ID.'],
    [['jobs', 'get', 'abc'], '"abc" is not a job id.'],
    [['jobs', 'cancel'], 'No job is named. Give ids, or --state, --type or --tag.'],
    [['jobs', 'retry'], 'No job is named. Give ids, or --state, --type or --tag.'],
    [['jobs', 'retry', '--state', 'running'], 'Jobs that are running cannot be retried: use --state failed,dead_letter.'],
    [['jobs', 'list', '--org', 'acme', '--all-orgs'], 'Give --org or --all-orgs, but not both.'],
    [['jobs', 'list', '--all-orgs', '--cursor', 'x'], 'A cursor belongs to one org: give --org.'],
    [['jobs', 'list', '--all-orgs', '--cursor', '-6wEt'], 'A cursor belongs to one org: give --org.'],
    [['jobs', 'list', '--all-orgs', '--cursor', '--6wEt'], 'A cursor belongs to one org: give --org.'],
    [['jobs', 'list', '--cursor', '--limit', '2'], "Option '--cursor' argument is ambiguous."],
    [['jobs', 'list', '--cursor', '-h'], "Option '--cursor' argument is ambiguous."],
    [['jobs', 'list', '--limit', '-5'], '--limit takes a whole number of at least 1, not "-5".'],
    [['jobs', 'get', '--', '--cursor', '-6wEt'], '"millrace jobs get" got too many arguments.'],
    [['jobs', 'submit', 'greet', '--timeout', '1s'], '--timeout needs --wait.'],
    [['jobs', 'retry', crypto.randomUUID(), '--delay', 'soon'], '--delay: write a duration'],
    [['jobs', 'submit', 'greet', '{name}'], 'The payload is not JSON'],
    [['jobs', 'submit', 'greet', '@/nowhere.json'], '/nowhere.json cannot be read'],
    [['jobs'], '"millrace jobs" needs one more word: submit, get'],
    [['version', 'now'], '"millrace version" got too many arguments.'],
    [[], 'No command given.'],
  ])('%j is refused with a sentence and exit code 2', async (args, sentence) => {
    const { code, stdout, stderr } = await runHere(args);
    expect(stderr).toContain(`error: `);
    expect(stderr).toContain(sentence);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  it('is told to programs as JSON', async () => {
    const { code, stderr } = await run(['--json', 'jobs', 'lst']);
    expect(code).toBe(2);
    expect(JSON.parse(stderr)).toEqual({
      error: {
        code: 'USAGE',
        message: 'There is no command "jobs lst" (did you mean jobs list?). See "millrace help".',
        remedy: null,
        details: [],
      },
    });
  });
});

it('each command has the name by which it is loaded', () => {
  expect(COMMANDS.map(({ name }) => name)).toEqual(COMMAND_NAMES);
});

describe('help', () => {
  it('lists every command', async () => {
    const [asked, flagged] = await Promise.all([run(['help']), run(['--help'])]);
    expect(asked).toMatchObject({ code: 0, stderr: '' });
    expect(flagged.stdout).toBe(asked.stdout);
    for (const { name, summary } of COMMANDS) expect(asked.stdout).toMatch(new RegExp(`^  ${name} +${summary}$`, 'm'));
  });

  it.each(COMMANDS.map((command) => [command.name, command] as const))('of %s shows its usage, options and examples', (name, command) => {
    const text = commandHelp(command);
    expect(text).toContain(`Usage: millrace ${name}`);
    for (const option of [...Object.keys(command.options), 'database', 'home', 'json']) {
      expect(text).toContain(`--${option}`);
    }
    expect(command.examples.length).toBeGreaterThan(0);
    for (const example of command.examples) expect(text).toContain(example);
  });

  it('of a command comes with --help, with -h and by name', async () => {
    const ways = [
      ['jobs', 'list', '--help'],
      ['jobs', '-h', 'list', '--state', 'failed'],
      ['help', 'jobs', 'list'],
    ];
    const command = COMMANDS.find(({ name }) => name === 'jobs list')!;
    for (const { code, stdout } of await Promise.all(ways.map((args) => run(args)))) {
      expect({ code, stdout }).toEqual({ code: 0, stdout: `${commandHelp(command)}\n` });
    }
  });

  it('shows a family of commands, and suggests what was meant', async () => {
    const [family, flagged, unknown] = await Promise.all([run(['help', 'queues']), run(['queues', '--help']), run(['help', 'docter'])]);
    expect(family.stdout).toContain('Usage: millrace queues pause NAME');
    expect(flagged.stdout).toBe(family.stdout);
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('did you mean doctor?');
  });
});

describe('version', () => {
  it('is that of the package, for people and for programs', async () => {
    const [people, programs, habit] = await Promise.all([run(['version']), run(['version', '--json']), run(['--version'])]);
    expect(habit).toEqual(people);
    const { millrace, node } = JSON.parse(programs.stdout);
    expect(millrace).toMatch(/^\d+\.\d+\.\d+/);
    expect(people.stdout).toBe(`millrace ${millrace} (Node ${node})\n`);
  });
});

describe('errors', () => {
  const nowhere = { database: 'postgres://u:secret@127.0.0.1:1/jobs' };

  it('name what failed once, without a stack, unless asked for it', async () => {
    const [plain, verbose] = await Promise.all([run(['migrate'], nowhere), run(['migrate', '--verbose'], nowhere)]);
    expect(plain.code).toBe(1);
    expect(plain.stderr).toContain('error: The database jobs at 127.0.0.1:1 cannot be used');
    expect(plain.stderr).not.toMatch(/secret|^\s+at /m);
    // The sentence has its own advice: the catalogue's is not added.
    expect(plain.stderr.trim().split('\n')).toHaveLength(1);
    expect(verbose.stderr).toMatch(/^\s+at /m);
    expect(verbose.stderr).toContain('caused by');
  });

  it('are JSON on stderr with --json, with what to do', async () => {
    const { code, stdout, stderr } = await run(['jobs', 'list', '--json'], nowhere);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(JSON.parse(stderr).error).toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      remedy: 'Check the address and the credentials, and that the server is running.',
      details: [],
    });
  });
});

describe('output', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  it('is coloured for a terminal only, and not with NO_COLOR', () => {
    const out = new Output({ json: false, verbose: false });
    const before = process.stdout.isTTY;
    const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    const printed = () => {
      // An escape character from outside stays visible beside our own.
      out.answer(null, () => [`${out.paint('green', 'ok')} \u001b[31m`]);
      return write.mock.lastCall?.[0];
    };
    try {
      process.stdout.isTTY = false;
      expect(printed()).toBe('ok \\u001b[31m\n');
      process.stdout.isTTY = true;
      vi.stubEnv('NO_COLOR', '');
      expect(printed()).toBe('\u001b[32mok\u001b[39m \\u001b[31m\n');
      vi.stubEnv('NO_COLOR', '1');
      expect(printed()).toBe('ok \\u001b[31m\n');
    } finally {
      process.stdout.isTTY = before;
    }
  });

  it('shows bytes as a submission would carry them', () => {
    expect(toJson({ payload: Buffer.from('hi'), at: new Date(0) })).toBe('{"payload":{"$bytes":"aGk="},"at":"1970-01-01T00:00:00.000Z"}');
  });

  it('never shows a password', () => {
    expect(maskPassword('postgres://u:secret@h:1/d?sslpassword=secret')).toBe('postgres://u:***@h:1/d?sslpassword=***');
    expect(maskPassword('postgres://u@h/d')).toBe('postgres://u@h/d');
    expect(maskPassword('host=h password=secret')).not.toContain('secret');
  });
});
