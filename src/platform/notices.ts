/** The output of the platform: text lines for people, or JSON lines for programs. */
export type Notices = {
  readonly json: boolean;
  readonly verbose: boolean;
  /** Line breaks inside of a line are escaped: pass several lines as a list. */
  event(data: { event: string } & Record<string, unknown>, text: string | readonly string[]): void;
  note(text: string): void;
};
