import type { Output } from './output.ts';

type OptionSpec = {
  readonly type: 'string' | 'boolean';
  readonly help: string;
  /** What stands for the value in the help: `N`, `URL`. */
  readonly value?: string;
  readonly short?: string;
  readonly multiple?: boolean;
  /** `--no-name` is an option too. */
  readonly negative?: boolean;
};

export type Options = Readonly<Record<string, OptionSpec>>;

type ValueOf<S extends OptionSpec> = S['type'] extends 'boolean'
  ? boolean
  : S['multiple'] extends true
    ? string[]
    : string;
export type ValuesOf<O extends Options> = { readonly [K in keyof O]?: ValueOf<O[K]> };

export const COMMON_OPTIONS = {
  database: {
    type: 'string',
    value: 'URL',
    help: 'the PostgreSQL to use; default: DATABASE_URL, else the embedded one',
  },
  home: {
    type: 'string',
    value: 'DIR',
    help: 'data folder of the embedded PostgreSQL; default: MILLRACE_HOME, else .millrace',
  },
  config: {
    type: 'string',
    value: 'FILE',
    help: 'settings in TOML; default: MILLRACE_CONFIG, else millrace.toml if there is one',
  },
  json: { type: 'boolean', help: 'print JSON for programs, on stdout; errors as JSON on stderr' },
  verbose: { type: 'boolean', help: 'say more; show where an error came from' },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
} as const satisfies Options;

export type CommonValues = ValuesOf<typeof COMMON_OPTIONS>;

/** One call of a command, its arguments parsed. */
export type Invocation<O extends Options = Options> = {
  readonly values: ValuesOf<O> & CommonValues;
  readonly args: readonly string[];
  readonly out: Output;
};

export type CommandSpec<O extends Options> = {
  readonly name: string;
  readonly summary: string;
  /** The arguments after the name, as the usage line shows them. */
  readonly takes: string;
  readonly minArgs: number;
  readonly maxArgs: number;
  readonly options: O;
  readonly details?: string;
  readonly examples: readonly string[];
  /** Runs until it is told to stop, and hears signals itself. */
  readonly isLongRunning?: boolean;
  /** Answers the exit code. */
  run(invocation: Invocation<O>): Promise<number>;
};

export type Command = CommandSpec<Options>;

/** Keeps the types of the options for `run`, and forgets them for the table. */
export function defineCommand<const O extends Options>(spec: CommandSpec<O>): Command {
  return spec as unknown as Command;
}

export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;
