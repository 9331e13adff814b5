import type { Output } from './output.ts';

type OptionSpec = {
  readonly type: 'string' | 'boolean';
  readonly help: string;
  /** The placeholder of the value in the help: `N`, `URL`. */
  readonly value?: string;
  readonly short?: string;
  readonly multiple?: boolean;
};

export type Options = Readonly<Record<string, OptionSpec>>;

type ValueOf<S extends OptionSpec> = S['type'] extends 'boolean' ? boolean : S['multiple'] extends true ? string[] : string;
export type ValuesOf<O extends Options> = { readonly [K in keyof O]?: ValueOf<O[K]> };

export const COMMON_OPTIONS = {
  database: {
    type: 'string',
    value: 'URL',
    help: 'the PostgreSQL server to use; default: DATABASE_URL, else the embedded server',
  },
  home: {
    type: 'string',
    value: 'DIR',
    help: 'data folder of the embedded PostgreSQL; default: MILLRACE_HOME, else .millrace',
  },
  config: {
    type: 'string',
    value: 'FILE',
    help: 'the configuration file in TOML; default: MILLRACE_CONFIG, else millrace.toml if it exists',
  },
  json: { type: 'boolean', help: 'print JSON on stdout, and errors as JSON on stderr' },
  verbose: { type: 'boolean', help: 'print more, and the stack trace of an error' },
  help: { type: 'boolean', short: 'h', help: 'show this help' },
} as const satisfies Options;

export type CommonValues = ValuesOf<typeof COMMON_OPTIONS>;

/** One call of a command with its parsed arguments. */
export type Invocation<O extends Options = Options> = {
  readonly values: ValuesOf<O> & CommonValues;
  readonly args: readonly string[];
  readonly out: Output;
};

export type CommandSpec<O extends Options> = {
  readonly name: string;
  readonly summary: string;
  /** The arguments after the name, as the usage line shows them. Default: none. */
  readonly takes?: string;
  readonly minArgs?: number;
  readonly maxArgs?: number;
  readonly options?: O;
  readonly details?: string;
  readonly examples: readonly string[];
  /** Runs until a signal stops it. The command handles signals itself. */
  readonly isLongRunning?: boolean;
  run(invocation: Invocation<O>): Promise<number>;
};

type Defaults = 'takes' | 'minArgs' | 'maxArgs' | 'options';

export type Command = CommandSpec<Options> & Required<Pick<CommandSpec<Options>, Defaults>>;

/** `run` gets the values with the types of its options. The table of commands does not need these types. */
export function defineCommand<const O extends Options>(spec: CommandSpec<O>): Command {
  return { takes: '', minArgs: 0, maxArgs: 0, options: {}, ...spec } as unknown as Command;
}

export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;
