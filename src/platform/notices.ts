/** The output of the platform: text lines for people, or JSON lines for programs. */
export type Notices = {
  readonly json: boolean;
  readonly verbose: boolean;
  /** Whether the command itself shows how jobs end, on the terminal where log lines appear too. */
  readonly showsJobs: boolean;
  /** Line breaks inside of a line are escaped: pass several lines as a list. */
  event(data: { event: string } & Record<string, unknown>, text: string | readonly string[]): void;
  note(text: string): void;
};

/** The text of an event that people find in the log. With --json the event is printed all the same. */
export const JSON_ONLY: readonly string[] = [];
